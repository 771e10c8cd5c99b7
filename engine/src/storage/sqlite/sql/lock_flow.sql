-- The transaction is the only writer, so the row stays as it is read.
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
