-- Guards nothing: one row by its key.
select
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
  ended_at
from sluicegate_attempt
where partition = :partition
and execution = :execution
and incarnation = :incarnation
and attempt = :attempt
