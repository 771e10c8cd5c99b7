-- Not terminal, and its attempt or its deadline is over.
-- Walks what is over, never the keys of the scope: `+ 0` keeps the primary key out of it.
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
  and x.partition + 0 >= $1::int4
  and x.partition + 0 < $2::int4
  and (x.partition + 0, x.id) > ($3::int4, $4::uuid)
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
  and x.partition + 0 >= $1::int4
  and x.partition + 0 < $2::int4
  and (x.partition + 0, x.id) > ($3::int4, $4::uuid)
  and ($5::text is null or x.namespace = $5::text)
  and ($6::text is null or x.instance_tag = $6::text)
) as o
order by o.partition, o.id
limit $7::int8
