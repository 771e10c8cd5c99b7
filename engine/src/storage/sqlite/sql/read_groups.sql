-- Guards nothing: one row by its key.
select
  partition,
  downstream,
  flow,
  policy,
  k,
  on_satisfied,
  edges,
  satisfied,
  unsatisfied,
  decision
from sluicegate_edge_group
where partition = :partition
and downstream = :downstream
