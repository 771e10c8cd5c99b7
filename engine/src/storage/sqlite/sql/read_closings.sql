-- Only closed flows.
select
  partition,
  id,
  closing
from sluicegate_flow
where partition = :partition
and id = :id
and closing is not null
