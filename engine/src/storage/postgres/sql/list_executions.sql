-- Executions of a scope, or of one flow of it, in one of some states.
-- `+ 0`: no partial index is to pass for one over all of them.
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
  x.worker
from sluicegate.execution as x
where x.partition >= $1::int4
and x.partition < $2::int4
and (x.partition, x.id) > ($3::int4, $4::uuid)
and (x.partition, x.id) <= ($8::int4, $9::uuid)
and ($10::uuid is null or x.flow = $10::uuid)
and ($5::text is null or x.namespace = $5::text)
and ($6::text is null or x.instance_tag = $6::text)
and ($11::int2[] is null or x.state + 0 = any ($11::int2[]))
order by x.partition, x.id
limit $7::int8
