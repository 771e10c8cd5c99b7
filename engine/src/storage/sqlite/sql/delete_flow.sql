-- Guards nothing but the key: the flow is locked.
delete from flow
where partition = :partition
and id = :id
