-- The first writer of an id keeps it.
insert into sluicegate_flow (
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
  :partition,
  :id,
  :namespace,
  :instance_tag,
  :closing,
  :closed_by,
  :revision,
  :tags,
  :content_hash,
  :request,
  :created_at
)
on conflict (partition, id) do nothing
