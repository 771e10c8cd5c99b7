-- Guards nothing: the groups of one flow.
select
  g.partition,
  g.downstream,
  g.flow,
  g.policy,
  g.k,
  g.on_satisfied,
  g.edges,
  g.satisfied,
  g.unsatisfied,
  g.decision
from sluicegate.edge_group as g
where g.partition = $1::int4
and g.flow = $2::uuid
and g.downstream >= $3::uuid
and g.downstream <= $4::uuid
order by g.downstream
