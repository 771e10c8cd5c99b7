-- The transaction is the only writer, so the row stays as it is read.
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
