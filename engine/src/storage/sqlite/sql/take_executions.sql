-- The transaction is the only writer, so no row is held by another and none is passed over.
select
  partition,
  id,
  flow,
  state,
  cause,
  incarnation,
  propagated,
  has_in,
  has_inputs,
  has_out,
  not_before,
  deadline,
  attempt,
  charged,
  give_backs,
  resumed_epoch,
  resumed_outcome,
  epoch,
  nonce,
  request,
  granted_at,
  expires_at,
  finished_at,
  max_attempts,
  backoff,
  backoff_delay_ms,
  backoff_factor,
  backoff_cap_ms,
  attempt_timeout_ms
from execution
where partition = :partition
and id = :id
