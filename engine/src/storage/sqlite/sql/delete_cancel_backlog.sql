-- Guards nothing but the key: the flow is locked.
delete from cancel_backlog
where partition = :partition
and flow = :flow
