-- Only closed flows.
select
  f.partition,
  f.id,
  f.closing
from (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, id)
  offset 0
) as r
join sluicegate.flow as f
on f.partition = r.partition
and f.id = r.id
where f.closing is not null
order by f.partition, f.id
