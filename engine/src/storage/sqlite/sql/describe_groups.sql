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
from edge_group indexed by edge_group_by_flow
where partition = :partition
and flow = :flow
order by downstream
