-- Guards nothing but the key: the group is locked.
update sluicegate.edge_group as g
set
  satisfied = r.satisfied,
  unsatisfied = r.unsatisfied,
  decision = r.decision
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::int8[],
      $4::int8[],
      $5::int2[]
    ) as r (
      partition,
      downstream,
      satisfied,
      unsatisfied,
      decision
    )
  offset 0
) as r
where g.partition = r.partition
and g.downstream = r.downstream
