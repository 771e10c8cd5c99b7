-- Every request.
select
  s.partition,
  s.downstream,
  s.flow
from sluicegate.sibling_request as s
cross join lateral (
  select 1
  from sluicegate.flow as f
  where f.partition = s.partition
  and f.id = s.flow
  and ($5::text is null or f.namespace = $5::text)
  and ($6::text is null or f.instance_tag = $6::text)
  offset 0
) as f
where s.partition >= $1::int4
and s.partition < $2::int4
and (s.partition, s.downstream) > ($3::int4, $4::uuid)
order by s.partition, s.downstream
limit $7::int8
