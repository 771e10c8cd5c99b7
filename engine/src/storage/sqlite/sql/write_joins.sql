-- Guards nothing but the key: the group is locked.
update sluicegate_edge_group
set
  policy = :policy,
  k = :k,
  on_satisfied = :on_satisfied,
  edges = :edges
where partition = :partition
and downstream = :downstream
