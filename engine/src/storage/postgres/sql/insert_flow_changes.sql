-- Guards nothing: the number of a change is its key.
insert into sluicegate.flow_change (
  partition,
  flow
)
select
  r.partition,
  r.flow
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[]
    ) as r (
      partition,
      flow
    )
  offset 0
) as r
