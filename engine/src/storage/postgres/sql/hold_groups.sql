-- Waits row by row, in id order, and reads nothing but the rows that it locks.
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
from (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, downstream)
  offset 0
) as r
join sluicegate.edge_group as g
on g.partition = r.partition
and g.downstream = r.downstream
order by g.partition, g.downstream
for no key update of g
