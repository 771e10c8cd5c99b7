-- Guards nothing: one row by its number.
select
  id,
  partition,
  execution,
  flow,
  incarnation,
  outcome,
  occurred_at,
  namespace,
  instance_tag
from completion_event
where id = :id
