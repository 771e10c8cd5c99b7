-- Only events that have a place: the head of their stream is locked.
delete from sluicegate.event as v
using (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::int8[],
      $4::int8[],
      $5::int2[],
      $6::int8[]
    ) as r (
      partition,
      execution,
      incarnation,
      lease_attempt,
      lease_change,
      lease_expires_at
    )
  offset 0
) as r
where v.partition = r.partition
and v.execution = r.execution
and v.incarnation = r.incarnation
and v.lease_attempt = r.lease_attempt
and v.lease_change = r.lease_change
and v.lease_expires_at = r.lease_expires_at
and coalesce(v.position, 0) > 0
