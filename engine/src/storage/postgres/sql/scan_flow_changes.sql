-- Flows with change rows.
select
  c.partition,
  c.flow
from (
  select distinct
    c.partition,
    c.flow
  from sluicegate.flow_change as c
  where c.partition >= $1::int4
  and c.partition < $2::int4
  and (c.partition, c.flow) > ($3::int4, $4::uuid)
  order by c.partition, c.flow
  offset 0
) as c
cross join lateral (
  select 1
  from sluicegate.flow as f
  where f.partition = c.partition
  and f.id = c.flow
  and ($5::text is null or f.namespace = $5::text)
  and ($6::text is null or f.instance_tag = $6::text)
  offset 0
) as f
order by c.partition, c.flow
limit $7::int8
