-- The first writer of an id keeps it.
insert into flow (
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
  :partition,
  :id,
  :namespace,
  :instance_tag,
  :closing,
  :revision,
  :content_hash,
  :request,
  :created_at
)
on conflict (partition, id) do nothing
