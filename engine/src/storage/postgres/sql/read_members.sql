-- Only what has not ended; the ids of a flow are a range.
select
  x.partition,
  x.id,
  x.state
from sluicegate.execution as x
where x.partition = $1::int4
and x.flow = $2::uuid
and x.id >= $3::uuid
and x.id <= $4::uuid
and x.id > $5::uuid
and x.state + 0 < 4
order by x.id
limit $6::int8
