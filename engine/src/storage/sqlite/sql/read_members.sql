-- Only what has not ended; the ids of a flow are a range.
select
  partition,
  id,
  state
from sluicegate_execution
where partition = :partition
and flow = :flow
and id >= :first
and id <= :last
and id > :after
and state + 0 < 4
order by id
limit :limit
