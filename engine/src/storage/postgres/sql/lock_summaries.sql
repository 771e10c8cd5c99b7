-- Waits row by row, in key order, and reads nothing but the rows that it locks.
select
  s.partition,
  s.flow,
  s.blocked,
  s.ready,
  s.active,
  s.suspended,
  s.succeeded,
  s.failed,
  s.cancelled,
  s.expired,
  s.skipped,
  s.status,
  s.ended_at,
  s.last_change
from (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, flow)
  offset 0
) as r
join sluicegate.flow_summary as s
on s.partition = r.partition
and s.flow = r.flow
order by s.partition, s.flow
for no key update of s
