-- Guards nothing: the groups of one flow.
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
and flow = :flow
and downstream >= :first
and downstream <= :last
order by downstream
