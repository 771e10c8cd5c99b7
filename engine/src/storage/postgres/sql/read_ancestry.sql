-- Only edges on a path to one of these. Each execution is passed once, whatever leads up to it.
with recursive
  above (partition, id) as (
    select
      r.partition,
      r.id
    from (
      select r.*
      from unnest($1::int4[], $2::uuid[]) as r (partition, id)
      offset 0
    ) as r
    union
    select
      e.partition,
      e.upstream
    from above as a
    cross join lateral (
      select
        e.partition,
        e.upstream
      from sluicegate.edge as e
      where e.partition = a.partition
      and e.downstream = a.id
      offset 0
    ) as e
  )
select
  e.partition,
  e.downstream,
  e.upstream
from above as a
cross join lateral (
  select
    e.partition,
    e.downstream,
    e.upstream
  from sluicegate.edge as e
  where e.partition = a.partition
  and e.downstream = a.id
  offset 0
) as e
order by e.partition, e.downstream, e.upstream
