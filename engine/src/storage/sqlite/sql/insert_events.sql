-- A second event of a key is an error.
insert into sluicegate_event (
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
  x.partition,
  x.id,
  :flow,
  :incarnation,
  :lease_attempt,
  :lease_change,
  :lease_expires_at,
  :outcome,
  :occurred_at,
  x.namespace,
  x.instance_tag
from sluicegate_execution as x
where x.partition = :partition
and x.id = :execution
