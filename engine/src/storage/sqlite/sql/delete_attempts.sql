-- Guards nothing but the key: the executions are locked.
delete from sluicegate_attempt
where partition = :partition
and execution = :execution
