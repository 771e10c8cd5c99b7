-- A request that exists stays.
insert into sluicegate.sibling_request (
  partition,
  downstream,
  flow
)
select
  r.partition,
  r.downstream,
  r.flow
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::uuid[]
    ) as r (
      partition,
      downstream,
      flow
    )
  offset 0
) as r
on conflict (partition, downstream) do nothing
