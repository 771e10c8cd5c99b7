-- Guards nothing: one row by its number.
select
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
from sluicegate.event as v
where v.id = $1::int8
order by v.id
