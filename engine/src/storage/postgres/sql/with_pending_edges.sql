-- Only pending edges; one is enough.
select
  r.partition,
  r.upstream
from (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, upstream)
  offset 0
) as r
cross join lateral (
  select 1
  from sluicegate.edge as e
  where e.partition = r.partition
  and e.upstream = r.upstream
  and e.resolution = 0
  limit 1
) as e
order by r.partition, r.upstream
