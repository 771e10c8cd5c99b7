-- A second event of an incarnation is an error.
insert into completion_event (
  partition,
  execution,
  flow,
  incarnation,
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
  :outcome,
  :occurred_at,
  x.namespace,
  x.instance_tag
from execution as x
where x.partition = :partition
and x.id = :execution
