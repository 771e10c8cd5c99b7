-- Guards nothing: one row by its key.
select
  a.partition,
  a.execution,
  a.incarnation,
  a.attempt,
  a.epoch,
  a.nonce,
  a.ending,
  a.reported,
  a.reported_value,
  a.payload_hash,
  a.granted_at,
  a.ended_at
from sluicegate.attempt as a
where a.partition = $1::int4
and a.execution = $2::uuid
and a.incarnation = $3::int8
and a.attempt = $4::int8
order by a.partition, a.execution, a.incarnation, a.attempt
