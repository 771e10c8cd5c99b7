-- Guards nothing: one row by its key.
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
from sluicegate.flow_summary as s
where s.partition = $1::int4
and s.flow = $2::uuid
order by s.partition, s.flow
