-- Guards nothing but the key: the group is locked.
update edge_group
set
  satisfied = :satisfied,
  unsatisfied = :unsatisfied,
  decision = :decision
where partition = :partition
and downstream = :downstream
