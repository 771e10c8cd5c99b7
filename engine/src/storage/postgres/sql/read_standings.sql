-- Guards nothing: the executions of one flow.
select
  x.partition,
  x.id,
  x.state,
  x.cause,
  x.incarnation
from sluicegate.execution as x
where x.partition = $1::int4
and x.flow = $2::uuid
and x.id >= $3::uuid
and x.id <= $4::uuid
order by x.id
