-- A flow that is on the list stays.
insert into sluicegate.cancel_backlog (
  partition,
  flow
)
select
  r.partition,
  r.flow
from (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, flow)
  offset 0
) as r
on conflict (partition, flow) do nothing
