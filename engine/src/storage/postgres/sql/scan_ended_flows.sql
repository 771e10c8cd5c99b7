-- Flows that are over, in the order in which they ended.
-- `+ 0` keeps the primary key out of the walk along the ends.
select
  s.partition,
  s.flow,
  s.ended_at
from (
  select
    s.partition,
    s.flow,
    s.ended_at
  from sluicegate.flow_summary as s
  where s.ended_at <= $1::int8
  and (s.ended_at, s.partition, s.flow) > ($2::int8, $3::int4, $4::uuid)
  and s.partition + 0 >= $5::int4
  and s.partition + 0 < $6::int4
  order by s.ended_at, s.partition, s.flow
  offset 0
) as s
cross join lateral (
  select 1
  from sluicegate.flow as f
  where f.partition = s.partition
  and f.id = s.flow
  and ($7::text is null or f.namespace = $7::text)
  and ($8::text is null or f.instance_tag = $8::text)
  offset 0
) as f
order by s.ended_at, s.partition, s.flow
limit $9::int8
