-- A flow that has a summary is an error.
insert into sluicegate_flow_summary (
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
)
values (
  :partition,
  :flow,
  :blocked,
  :ready,
  :active,
  :suspended,
  :succeeded,
  :failed,
  :cancelled,
  :expired,
  :skipped,
  :status,
  :ended_at,
  :last_change
)
