-- Numbers an event once: only while it has no position. The event is locked.
update sluicegate.completion_event as v
set position = r.position
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::int8[],
      $4::int8[]
    ) as r (
      partition,
      execution,
      incarnation,
      position
    )
  offset 0
) as r
where v.partition = r.partition
and v.execution = r.execution
and v.incarnation = r.incarnation
and coalesce(v.position, 0) = 0
