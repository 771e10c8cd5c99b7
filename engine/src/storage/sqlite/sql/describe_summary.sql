-- Guards nothing: one row by its key.
select
  partition,
  flow,
  blocked,
  ready,
  active,
  suspended,
  succeeded,
  failed,
  cancelled,
  expired,
  skipped,
  status,
  ended_at,
  last_change
from sluicegate_flow_summary
where partition = :partition
and flow = :flow
