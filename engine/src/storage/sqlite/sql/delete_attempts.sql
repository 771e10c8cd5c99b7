-- Guards nothing but the key: the executions are locked.
delete from attempt
where partition = :partition
and execution = :execution
