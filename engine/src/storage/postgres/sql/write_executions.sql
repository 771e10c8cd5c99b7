-- Changes the row only in the state and at the epoch that it was read with. The row is locked.
-- Progress goes where the result is cleared.
update sluicegate.execution as x
set
  state = r.state,
  cause = r.cause,
  incarnation = r.incarnation,
  propagated = r.propagated,
  has_in = r.has_in,
  has_inputs = r.has_inputs,
  has_out = r.has_out,
  not_before = r.not_before,
  deadline = r.deadline,
  attempt = r.attempt,
  charged = r.charged,
  give_backs = r.give_backs,
  resumed_epoch = r.resumed_epoch,
  resumed_outcome = r.resumed_outcome,
  epoch = r.epoch,
  nonce = r.nonce,
  request = r.request,
  granted_at = r.granted_at,
  expires_at = r.expires_at,
  worker = case when r.nonce is null then null else x.worker end,
  instance = case when r.nonce is null then null else x.instance end,
  finished_at = r.finished_at,
  result = case when r.keep_result then x.result else r.result end,
  progress_attempt = case
    when r.keep_result or r.result is not null then x.progress_attempt
  end,
  progress_sequence = case
    when r.keep_result or r.result is not null then x.progress_sequence
  end,
  progress = case when r.keep_result or r.result is not null then x.progress end
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::int2[],
      $4::int8[],
      $5::int2[],
      $6::int2[],
      $7::int8[],
      $8::bool[],
      $9::bool[],
      $10::bool[],
      $11::bool[],
      $12::int8[],
      $13::int8[],
      $14::int8[],
      $15::int8[],
      $16::int8[],
      $17::int8[],
      $18::int2[],
      $19::int8[],
      $20::int8[],
      $21::uuid[],
      $22::int8[],
      $23::int8[],
      $24::int8[],
      $25::bool[],
      $26::bytea[]
    ) as r (
      partition,
      id,
      guard_state,
      guard_epoch,
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
      keep_result,
      result
    )
  offset 0
) as r
where x.partition = r.partition
and x.id = r.id
and x.state + 0 = r.guard_state
and x.epoch = r.guard_epoch
returning
  x.partition,
  x.id
