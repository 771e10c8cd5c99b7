-- Guards nothing: the edges of one flow, found through its groups.
select
  e.partition,
  e.downstream,
  e.upstream,
  e.accepts,
  e.resolution,
  e.upstream_incarnation,
  e.input,
  e.passes_as
from sluicegate_edge_group as g
cross join sluicegate_edge as e
on e.partition = g.partition
and e.downstream = g.downstream
where g.partition = :partition
and g.flow = :flow
and g.downstream >= :first
and g.downstream <= :last
order by g.downstream, e.upstream
