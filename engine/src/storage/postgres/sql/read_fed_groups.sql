-- Only pending edges; a group without a row shows as null, never as no edge.
select
  e.partition,
  e.downstream,
  e.upstream,
  g.policy,
  g.k,
  g.on_satisfied,
  g.decision
from (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, upstream)
  offset 0
) as r
cross join lateral (
  select
    e.partition,
    e.downstream,
    e.upstream
  from sluicegate.edge as e
  where e.partition = r.partition
  and e.upstream = r.upstream
  and e.resolution = 0
  offset 0
) as e
left join lateral (
  select
    g.policy,
    g.k,
    g.on_satisfied,
    g.decision
  from sluicegate.edge_group as g
  where g.partition = e.partition
  and g.downstream = e.downstream
  offset 0
) as g
on true
order by e.partition, e.downstream, e.upstream
