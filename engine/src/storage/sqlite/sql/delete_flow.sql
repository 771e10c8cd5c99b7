-- Guards nothing but the key: the flow is locked.
delete from sluicegate_flow
where partition = :partition
and id = :id
