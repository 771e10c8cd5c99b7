-- Guards nothing but the key: the summary is locked.
update sluicegate_flow_summary
set
  blocked = :blocked,
  ready = :ready,
  active = :active,
  suspended = :suspended,
  succeeded = :succeeded,
  failed = :failed,
  cancelled = :cancelled,
  expired = :expired,
  skipped = :skipped,
  status = :status,
  ended_at = :ended_at,
  last_change = :last_change
where partition = :partition
and flow = :flow
