-- The first writer of an id keeps it; another waits for the end of its transaction.
insert into sluicegate.flow (
  partition,
  id,
  namespace,
  instance_tag,
  closing,
  revision,
  content_hash,
  request,
  created_at
)
values (
  $1::int4,
  $2::uuid,
  $3::text,
  $4::text,
  $5::int2,
  $6::int8,
  $7::bytea,
  $8::uuid,
  $9::int8
)
on conflict (partition, id) do nothing
