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
from (
  select
    g.partition,
    g.downstream
  from sluicegate.edge_group as g
  where g.partition = $1::int4
  and g.flow = $2::uuid
  and g.downstream >= $3::uuid
  and g.downstream <= $4::uuid
  offset 0
) as r
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
  where e.partition = r.partition
  and e.downstream = r.downstream
  offset 0
) as e
order by e.partition, e.downstream, e.upstream
