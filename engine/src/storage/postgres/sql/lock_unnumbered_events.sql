-- Waits row by row, in the order of the numbers, and reads nothing but the rows that it locks.
-- `+ 0` keeps the primary key out of the walk over what has no position.
select
  v.id,
  v.partition,
  v.execution,
  v.incarnation,
  v.lease_attempt,
  v.lease_change,
  v.lease_expires_at
from sluicegate.event as v
where v.position is null
and v.partition + 0 >= $1::int4
and v.partition + 0 < $2::int4
order by v.id
limit $3::int8
for no key update of v
