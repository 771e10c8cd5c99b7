-- Guards nothing but the key: the groups are locked.
delete from edge
where partition = :partition
and downstream = :downstream
