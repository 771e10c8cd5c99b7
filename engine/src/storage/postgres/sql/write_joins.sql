-- Guards nothing but the key: the group is locked.
update sluicegate.edge_group as g
set
  policy = r.policy,
  k = r.k,
  on_satisfied = r.on_satisfied,
  edges = r.edges
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::int2[],
      $4::int8[],
      $5::int2[],
      $6::int8[]
    ) as r (
      partition,
      downstream,
      policy,
      k,
      on_satisfied,
      edges
    )
  offset 0
) as r
where g.partition = r.partition
and g.downstream = r.downstream
