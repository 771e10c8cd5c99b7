-- Guards nothing: only live leases carry a request.
select
  partition,
  id,
  flow,
  state,
  cause,
  incarnation,
  propagated,
  has_in,
  has_out,
  not_before,
  deadline,
  attempt,
  charged,
  give_backs,
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
  payload
from execution indexed by execution_by_request
where state = 2
and request = :request
order by partition, id
