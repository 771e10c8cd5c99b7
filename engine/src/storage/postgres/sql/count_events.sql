-- Guards nothing: how many events these executions have.
select
  count(*) as events
from (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, execution)
  offset 0
) as r
join sluicegate.event as v
on v.partition = r.partition
and v.execution = r.execution
order by events
