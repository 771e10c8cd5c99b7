-- The first writer of a key keeps it.
insert into sluicegate_submission (
  namespace,
  key,
  partition,
  flow,
  content_hash,
  request
)
values (
  :namespace,
  :key,
  :partition,
  :flow,
  :content_hash,
  :request
)
on conflict (namespace, key) do nothing
