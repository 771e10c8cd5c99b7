-- Guards nothing but the key: the executions are locked.
delete from sluicegate_execution
where partition = :partition
and id = :id
