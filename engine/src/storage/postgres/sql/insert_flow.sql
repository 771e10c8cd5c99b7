-- The first writer of an id keeps it; another waits for the end of its transaction.
insert into sluicegate.flow (
  partition,
  id,
  namespace,
  instance_tag,
  closing,
  closed_by,
  revision,
  tags,
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
  $6::uuid,
  $7::int8,
  $8::text,
  $9::bytea,
  $10::uuid,
  $11::int8
)
on conflict (partition, id) do nothing
