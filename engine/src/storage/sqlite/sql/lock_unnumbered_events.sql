-- An event has its number as its position from its insert on: none lacks one. Numbers begin at 1.
select
  id,
  partition,
  execution,
  incarnation,
  lease_attempt,
  lease_change,
  lease_expires_at
from sluicegate_event
where id < 0
and +partition >= :partition_from
and +partition < :partition_to
order by id
limit :limit
