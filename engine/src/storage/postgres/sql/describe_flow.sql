-- Guards nothing: one row by its key.
select
  f.partition,
  f.id,
  f.namespace,
  f.instance_tag,
  f.closing,
  f.closed_by,
  f.revision,
  f.tags,
  f.content_hash,
  f.request,
  f.created_at
from sluicegate.flow as f
where f.partition = $1::int4
and f.id = $2::uuid
order by f.partition, f.id
