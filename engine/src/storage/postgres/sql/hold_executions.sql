-- Waits row by row, in id order, and reads nothing but the rows that it locks.
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
  x.attempt_timeout_ms
from (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, id)
  offset 0
) as r
join sluicegate.execution as x
on x.partition = r.partition
and x.id = r.id
order by x.partition, x.id
for no key update of x
