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
from (
  select
    x.partition,
    x.id,
    x.flow
  from sluicegate.execution as x
  where x.partition = $1::int4
  and x.id = $2::uuid
  offset 0
) as x
cross join lateral (
  select
    g.partition,
    g.downstream
  from sluicegate.edge_group as g
  where g.partition = x.partition
  and g.flow = x.flow
  and g.downstream >= $3::uuid
  and g.downstream <= $4::uuid
  and ($5::uuid is null or g.downstream > $5::uuid)
  order by g.downstream
  offset 0
) as g
cross join lateral (
  select
    e.partition,
    e.downstream,
    e.upstream,
    e.accepts,
    e.resolution,
    e.upstream_incarnation,
    e.input,
    e.passes_as
  from sluicegate.edge as e
  where e.partition = g.partition
  and e.downstream = g.downstream
  and e.upstream = x.id
  offset 0
) as e
order by e.downstream
limit $6::int8
