-- Not terminal, and its attempt or its deadline is over.
select
  o.partition,
  o.id
from (
  select
    x.partition,
    x.id
  from sluicegate.execution as x
  where x.state = 2
  and sluicegate.attempt_over_at(x.granted_at, x.expires_at, x.attempt_timeout_ms) <= $8::int8
  and x.partition >= $1::int4
  and x.partition < $2::int4
  and (x.partition, x.id) > ($3::int4, $4::uuid)
  and ($5::text is null or x.namespace = $5::text)
  and ($6::text is null or x.instance_tag = $6::text)
  union
  select
    x.partition,
    x.id
  from sluicegate.execution as x
  where x.state < 4
  and x.deadline is not null
  and x.deadline <= $8::int8
  and x.partition >= $1::int4
  and x.partition < $2::int4
  and (x.partition, x.id) > ($3::int4, $4::uuid)
  and ($5::text is null or x.namespace = $5::text)
  and ($6::text is null or x.instance_tag = $6::text)
) as o
order by o.partition, o.id
limit $7::int8
