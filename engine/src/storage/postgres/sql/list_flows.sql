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
from sluicegate.flow as f
cross join lateral (
  select
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
  from sluicegate.flow_summary as s
  where s.partition = f.partition
  and s.flow = f.id
  and ($8::int2[] is null or s.status = any ($8::int2[]))
  offset 0
) as s
where f.partition >= $1::int4
and f.partition < $2::int4
and (f.partition, f.id) > ($3::int4, $4::uuid)
and ($5::text is null or f.namespace = $5::text)
and ($6::text is null or f.instance_tag = $6::text)
order by f.partition, f.id
limit $7::int8
