-- Guards nothing but the key: the flow is locked.
delete from request
where partition = :partition
and flow = :flow
