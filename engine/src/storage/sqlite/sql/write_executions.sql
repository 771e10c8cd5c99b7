-- Changes the row only in the state and at the epoch that it was read with.
-- Progress goes where the result is cleared.
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
  epoch = :epoch,
  nonce = :nonce,
  request = :request,
  granted_at = :granted_at,
  expires_at = :expires_at,
  worker = iif(:nonce is null, null, worker),
  instance = iif(:nonce is null, null, instance),
  finished_at = :finished_at,
  result = iif(:keep_result, result, :result),
  progress_attempt = iif(:keep_result or :result is not null, progress_attempt, null),
  progress_sequence = iif(:keep_result or :result is not null, progress_sequence, null),
  progress = iif(:keep_result or :result is not null, progress, null)
where partition = :partition
and id = :id
and state = :guard_state
and epoch = :guard_epoch
