-- Flows of a scope in one of some statuses.
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
  f.created_at,
  s.partition,
  s.flow,
  s.blocked,
  s.ready,
  s.active,
  s.suspended,
  s.succeeded,
  s.failed,
  s.cancelled,
  s.expired,
  s.skipped,
  s.status,
  s.ended_at,
  s.last_change
from sluicegate_flow as f
cross join sluicegate_flow_summary as s
on s.partition = f.partition
and s.flow = f.id
where f.partition >= :partition_from
and f.partition < :partition_to
and (f.partition, f.id) > (:after_partition, :after_id)
and (:namespace is null or f.namespace = :namespace)
and (:instance_tag is null or f.instance_tag = :instance_tag)
and (:statuses is null or s.status in (select value from json_each(:statuses)))
order by f.partition, f.id
limit :limit
