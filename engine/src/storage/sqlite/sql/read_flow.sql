-- Guards nothing: one row by its key.
select
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
from sluicegate_flow
where partition = :partition
and id = :id
