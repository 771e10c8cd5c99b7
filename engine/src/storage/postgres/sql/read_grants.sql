-- Guards nothing: only live leases carry a request.
select
  x.partition,
  x.id,
  x.flow,
  x.state,
  x.cause,
  x.incarnation,
  x.propagated,
  x.has_in,
  x.has_out,
  x.not_before,
  x.deadline,
  x.attempt,
  x.charged,
  x.give_backs,
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
  x.payload
from sluicegate.execution as x
where x.state = 2
and x.request = $1::uuid
order by x.partition, x.id
