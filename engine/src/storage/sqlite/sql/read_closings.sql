-- Only closed flows.
select
  partition,
  id,
  closing
from flow
where partition = :partition
and id = :id
and closing is not null
