-- The first writer of a key keeps it; another waits for the end of its transaction.
insert into sluicegate.submission (
  namespace,
  key,
  partition,
  flow,
  content_hash,
  request
)
values (
  $1::text,
  $2::text,
  $3::int4,
  $4::uuid,
  $5::bytea,
  $6::uuid
)
on conflict (namespace, key) do nothing
