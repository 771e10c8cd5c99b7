-- The head beside the events, so that they belong together; without an event it stands alone.
-- `+ 0` keeps the primary key out of the walk up the positions.
select
  h.stream,
  h.timeline,
  h.last_position,
  h.horizon,
  v.position,
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
from sluicegate.stream_head as h
left join lateral (
  select
    w.position,
    w.id,
    w.partition,
    w.execution,
    w.flow,
    w.incarnation,
    w.lease_attempt,
    w.lease_change,
    w.lease_expires_at,
    w.outcome,
    w.occurred_at,
    w.namespace,
    w.instance_tag
  from sluicegate.event as w
  where w.position > $2::int8
  and w.partition + 0 >= $3::int4
  and w.partition + 0 < $4::int4
  and ($5::text is null or w.namespace = $5::text)
  and ($6::text is null or w.instance_tag = $6::text)
  and ($7::bool is null or (w.lease_change > 0) = $7::bool)
  order by w.position
  limit $8::int8
) as v
on true
where h.stream = $1::int8
order by v.position
