-- Terminal, not propagated, and ended by then.
select
  x.partition,
  x.id
from sluicegate.execution as x
where x.state >= 4
and not x.propagated
and x.partition >= $1::int4
and x.partition < $2::int4
and (x.partition, x.id) > ($3::int4, $4::uuid)
and ($5::text is null or x.namespace = $5::text)
and ($6::text is null or x.instance_tag = $6::text)
and ($8::int8 is null or x.finished_at <= $8::int8)
order by x.partition, x.id
limit $7::int8
