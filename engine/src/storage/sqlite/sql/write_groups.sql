-- Guards nothing but the key: the group is locked.
update sluicegate_edge_group
set
  satisfied = :satisfied,
  unsatisfied = :unsatisfied,
  decision = :decision
where partition = :partition
and downstream = :downstream
