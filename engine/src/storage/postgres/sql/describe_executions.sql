-- Guards nothing: the executions of one flow.
select
  x.partition,
  x.id,
  x.flow,
  x.state,
  x.cause,
  x.incarnation,
  x.propagated,
  x.has_in,
  x.has_inputs,
  x.has_out,
  x.not_before,
  x.deadline,
  x.attempt,
  x.charged,
  x.give_backs,
  x.resumed_epoch,
  x.resumed_outcome,
  x.progress_attempt,
  x.progress_sequence,
  x.epoch,
  x.nonce,
  x.request,
  x.granted_at,
  x.expires_at,
  x.finished_at,
  x.max_attempts,
  x.backoff,
  x.backoff_delay_ms,
  x.backoff_factor,
  x.backoff_cap_ms,
  x.attempt_timeout_ms,
  x.name,
  x.kind,
  x.lane,
  x.priority,
  x.namespace,
  x.instance_tag,
  x.payload,
  x.worker,
  x.result,
  x.progress
from sluicegate.execution as x
where x.partition = $1::int4
and x.flow = $2::uuid
and x.id >= $3::uuid
and x.id <= $4::uuid
order by x.id
