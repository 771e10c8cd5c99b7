-- The transaction is the only writer, so the row stays as it is read.
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
