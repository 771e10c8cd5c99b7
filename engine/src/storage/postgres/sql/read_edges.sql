-- Guards nothing: the edges of groups, resolved ones too.
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
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, downstream)
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
