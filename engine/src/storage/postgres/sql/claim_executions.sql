-- Grants ready rows whose time has come and whose flow lets them start, passing over locked ones.
-- The walk is one per lane, each in the order of its index and cut at the limit; the merge cuts
-- again. What is locked and not granted is free at the end of the transaction.
with chosen as materialized (
  select
    c.partition,
    c.id
  from unnest($9::text[]) as r (lane)
  cross join lateral (
    select
      x.partition,
      x.id,
      sluicegate.claim_rank(x.not_before, x.priority) as claim_rank,
      x.not_before
    from sluicegate.execution as x
    join sluicegate.flow as f
    on f.partition = x.partition
    and f.id = x.flow
    where x.state = 1
    and x.lane = r.lane
    and x.not_before <= $4::int8
    and x.partition + 0 >= $10::int4
    and x.partition + 0 < $11::int4
    and ($12::text is null or x.namespace = $12::text)
    and ($13::text[] is null or x.kind = any ($13::text[]))
    and ($14::uuid[] is null or x.id <> all ($14::uuid[]))
    and (f.closing is null or f.closing = 1)
    order by
      sluicegate.claim_rank(x.not_before, x.priority),
      x.not_before,
      x.partition,
      x.id
    limit $8::int8
    for no key update of x skip locked
  ) as c
  order by c.claim_rank, c.not_before, c.partition, c.id
  limit $8::int8
)
update sluicegate.execution as x
set
  state = 2,
  attempt = x.attempt + 1,
  charged = x.charged + $1::int8,
  epoch = case
    when x.epoch = 9223372036854775807 then -9223372036854775807 - 1
    else x.epoch + 1
  end,
  nonce = $2::int8,
  request = $3::uuid,
  granted_at = $4::int8,
  expires_at = $5::int8,
  worker = $6::text,
  instance = $7::text
from chosen as r
where x.partition = r.partition
and x.id = r.id
and x.state + 0 = 1
returning
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
  x.payload
