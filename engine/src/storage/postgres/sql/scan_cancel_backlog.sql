-- Every flow on the list, closed or not.
select
  b.partition,
  b.flow
from sluicegate.cancel_backlog as b
cross join lateral (
  select 1
  from sluicegate.flow as f
  where f.partition = b.partition
  and f.id = b.flow
  and ($5::text is null or f.namespace = $5::text)
  and ($6::text is null or f.instance_tag = $6::text)
  offset 0
) as f
where b.partition >= $1::int4
and b.partition < $2::int4
and (b.partition, b.flow) > ($3::int4, $4::uuid)
order by b.partition, b.flow
limit $7::int8
