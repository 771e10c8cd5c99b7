-- Guards nothing but the key: the flow is locked.
delete from submission
where partition = :partition
and flow = :flow
