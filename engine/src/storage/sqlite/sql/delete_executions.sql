-- Guards nothing but the key: the executions are locked.
delete from execution
where partition = :partition
and id = :id
