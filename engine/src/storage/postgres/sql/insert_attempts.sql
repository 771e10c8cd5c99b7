-- An attempt of that number is an error. The execution is locked: its worker is copied.
insert into sluicegate.attempt (
  partition,
  execution,
  incarnation,
  attempt,
  epoch,
  nonce,
  ending,
  reported,
  reported_value,
  payload_hash,
  granted_at,
  ended_at,
  worker,
  instance
)
select
  r.partition,
  r.execution,
  r.incarnation,
  r.attempt,
  r.epoch,
  r.nonce,
  r.ending,
  r.reported,
  r.reported_value,
  r.payload_hash,
  r.granted_at,
  r.ended_at,
  x.worker,
  x.instance
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::int8[],
      $4::int8[],
      $5::int8[],
      $6::int8[],
      $7::int2[],
      $8::int2[],
      $9::int8[],
      $10::int8[],
      $11::int8[],
      $12::int8[]
    ) as r (
      partition,
      execution,
      incarnation,
      attempt,
      epoch,
      nonce,
      ending,
      reported,
      reported_value,
      payload_hash,
      granted_at,
      ended_at
    )
  offset 0
) as r
join sluicegate.execution as x
on x.partition = r.partition
and x.id = r.execution
