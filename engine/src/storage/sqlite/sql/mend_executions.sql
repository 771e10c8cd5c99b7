-- Guards nothing but the key: the row is locked, and what it holds may be anything.
-- What was reported as progress stays with its mark, and the mark with it.
update sluicegate_execution
set
  state = :state,
  cause = :cause,
  incarnation = :incarnation,
  propagated = :propagated,
  has_in = :has_in,
  has_inputs = :has_inputs,
  has_out = :has_out,
  not_before = :not_before,
  deadline = :deadline,
  attempt = :attempt,
  charged = :charged,
  give_backs = :give_backs,
  resumed_epoch = :resumed_epoch,
  resumed_outcome = :resumed_outcome,
  progress_attempt = iif(progress is null, null, :progress_attempt),
  progress_sequence = iif(progress is null, null, :progress_sequence),
  progress = iif(:progress_attempt is null, null, progress),
  epoch = :epoch,
  finished_at = :finished_at,
  max_attempts = :max_attempts,
  backoff = :backoff,
  backoff_delay_ms = :backoff_delay_ms,
  backoff_factor = :backoff_factor,
  backoff_cap_ms = :backoff_cap_ms,
  attempt_timeout_ms = :attempt_timeout_ms,
  nonce = null,
  request = null,
  granted_at = null,
  expires_at = null,
  worker = null,
  instance = null
where partition = :partition
and id = :id
