-- Guards nothing: the executions of one flow.
select
  partition,
  id,
  state,
  cause,
  incarnation
from sluicegate_execution
where partition = :partition
and flow = :flow
and id >= :first
and id <= :last
order by id
