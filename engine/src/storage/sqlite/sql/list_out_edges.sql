-- Guards nothing: the edges out of one execution, found through the groups of its flow.
-- There is no index by upstream over all edges: each group is asked for this one.
select
  e.partition,
  e.downstream,
  e.upstream,
  e.accepts,
  e.resolution,
  e.upstream_incarnation,
  e.input,
  e.passes_as
from sluicegate_execution as x
cross join sluicegate_edge_group as g
on g.partition = x.partition
and g.flow = x.flow
cross join sluicegate_edge as e
on e.partition = g.partition
and e.downstream = g.downstream
and e.upstream = x.id
where x.partition = :partition
and x.id = :upstream
and g.downstream >= :first
and g.downstream <= :last
and (:after is null or g.downstream > :after)
order by g.downstream
limit :limit
