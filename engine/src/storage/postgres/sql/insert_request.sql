-- The first effect of a request id stays; another waits for the end of its transaction.
insert into sluicegate.request (
  partition,
  flow,
  request,
  content_hash,
  reply
)
values (
  $1::int4,
  $2::uuid,
  $3::uuid,
  $4::bytea,
  $5::bytea
)
on conflict (partition, flow, request) do nothing
