-- Only pending edges; an upstream without a row shows as null, never as no edge.
select
  e.partition,
  e.downstream,
  e.upstream,
  e.accepts,
  x.state,
  x.incarnation
from (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, downstream)
  offset 0
) as r
cross join lateral (
  select
    e.partition,
    e.downstream,
    e.upstream,
    e.accepts
  from sluicegate.edge as e
  where e.partition = r.partition
  and e.downstream = r.downstream
  and e.resolution + 0 = 0
  offset 0
) as e
left join lateral (
  select
    x.state,
    x.incarnation
  from sluicegate.execution as x
  where x.partition = e.partition
  and x.id = e.upstream
  offset 0
) as x
on true
order by e.partition, e.downstream, e.upstream
