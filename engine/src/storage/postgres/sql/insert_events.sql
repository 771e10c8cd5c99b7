-- A second event of a key is an error. The execution is locked: its labels are copied.
insert into sluicegate.event (
  partition,
  execution,
  flow,
  incarnation,
  lease_attempt,
  lease_change,
  lease_expires_at,
  outcome,
  occurred_at,
  namespace,
  instance_tag
)
select
  r.partition,
  r.execution,
  r.flow,
  r.incarnation,
  r.lease_attempt,
  r.lease_change,
  r.lease_expires_at,
  r.outcome,
  r.occurred_at,
  x.namespace,
  x.instance_tag
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::int8[],
      $4::int8[],
      $5::int2[],
      $6::int8[],
      $7::int2[],
      $8::uuid[],
      $9::int8[]
    ) as r (
      partition,
      execution,
      incarnation,
      lease_attempt,
      lease_change,
      lease_expires_at,
      outcome,
      flow,
      occurred_at
    )
  offset 0
) as r
join sluicegate.execution as x
on x.partition = r.partition
and x.id = r.execution
