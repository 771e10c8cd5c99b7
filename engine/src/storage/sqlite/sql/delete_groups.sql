-- Guards nothing but the key: the groups are locked.
delete from sluicegate_edge_group
where partition = :partition
and downstream = :downstream
