-- The head beside the events, so that they belong together; without an event it stands alone.
-- `+` keeps the walk up the numbers on the table itself.
select
  h.stream,
  h.timeline,
  max(
    h.last_position,
    coalesce((select seq from sqlite_sequence where name = 'sluicegate_event'), 0)
  ) as last_position,
  h.horizon,
  v.id as position,
  v.id,
  v.partition,
  v.execution,
  v.flow,
  v.incarnation,
  v.lease_attempt,
  v.lease_change,
  v.lease_expires_at,
  v.outcome,
  v.occurred_at,
  v.namespace,
  v.instance_tag
from (
  select
    stream,
    timeline,
    last_position,
    horizon
  from sluicegate_stream_head
  where stream = :stream
  limit 1
) as h
left join (
  select
    id,
    partition,
    execution,
    flow,
    incarnation,
    lease_attempt,
    lease_change,
    lease_expires_at,
    outcome,
    occurred_at,
    namespace,
    instance_tag
  from sluicegate_event
  where id > :after
  and +partition >= :partition_from
  and +partition < :partition_to
  and (:namespace is null or namespace = :namespace)
  and (:instance_tag is null or instance_tag = :instance_tag)
  and (:leases is null or (lease_change > 0) = :leases)
  order by id
  limit :limit
) as v
on true
order by v.id
