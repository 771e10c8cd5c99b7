-- Guards nothing but the key: the flow is locked.
delete from sluicegate_cancel_backlog
where partition = :partition
and flow = :flow
