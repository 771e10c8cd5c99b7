-- Guards nothing: the executions of one flow, alike ones together.
select
  x.state,
  x.cause,
  coalesce(x.state = 1 and x.not_before > $5::int8, false) as delayed,
  count(*) as executions,
  max(x.finished_at) as finished_at
from sluicegate.execution as x
where x.partition = $1::int4
and x.flow = $2::uuid
and x.id >= $3::uuid
and x.id <= $4::uuid
group by x.state, x.cause, delayed
order by x.state, x.cause, delayed
