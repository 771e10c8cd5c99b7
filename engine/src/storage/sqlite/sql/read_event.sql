-- Guards nothing: one row by its number.
select
  id,
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
from sluicegate_event
where id = :id
