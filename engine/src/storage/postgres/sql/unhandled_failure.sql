-- Failed or expired, and no out-edge accepts that.
-- Takes the edges once, through the groups of the flow: there is no index by upstream over all.
select
  x.partition,
  x.id
from sluicegate.execution as x
where x.partition = $1::int4
and x.flow = $2::uuid
and x.id >= $3::uuid
and x.id <= $4::uuid
and x.state + 0 in (5, 7)
except
select
  e.partition,
  e.upstream
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
) as g
cross join lateral (
  select
    e.partition,
    e.upstream,
    e.accepts
  from sluicegate.edge as e
  where e.partition = g.partition
  and e.downstream = g.downstream
  offset 0
) as e
cross join lateral (
  select x.state
  from sluicegate.execution as x
  where x.partition = e.partition
  and x.id = e.upstream
  and x.state + 0 in (5, 7)
  offset 0
) as x
where (e.accepts >> (x.state - 4)) & 1 = 1
order by partition, id
limit 1
