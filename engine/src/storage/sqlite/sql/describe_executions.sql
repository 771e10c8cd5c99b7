-- Guards nothing: the executions of one flow.
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
  progress_attempt,
  progress_sequence,
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
  attempt_timeout_ms,
  name,
  kind,
  lane,
  priority,
  namespace,
  instance_tag,
  payload,
  worker,
  result,
  progress
from sluicegate_execution
where partition = :partition
and flow = :flow
and id >= :first
and id <= :last
order by id
