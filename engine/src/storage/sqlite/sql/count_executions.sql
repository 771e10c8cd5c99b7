-- Guards nothing: the executions of one flow, alike ones together.
select
  state,
  cause,
  coalesce(state = 1 and not_before > :now, 0) as delayed,
  count(*) as executions,
  max(finished_at) as finished_at
from sluicegate_execution
where partition = :partition
and flow = :flow
and id >= :first
and id <= :last
group by state, cause, delayed
order by state, cause, delayed
