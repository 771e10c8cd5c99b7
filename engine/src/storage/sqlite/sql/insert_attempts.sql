-- An attempt of that number is an error.
insert into sluicegate_attempt (
  partition,
  execution,
  incarnation,
  attempt,
  epoch,
  nonce,
  ending,
  reported,
  reported_value,
  payload_hash,
  granted_at,
  ended_at,
  worker,
  instance
)
select
  x.partition,
  x.id,
  :incarnation,
  :attempt,
  :epoch,
  :nonce,
  :ending,
  :reported,
  :reported_value,
  :payload_hash,
  :granted_at,
  :ended_at,
  x.worker,
  x.instance
from sluicegate_execution as x
where x.partition = :partition
and x.id = :execution
