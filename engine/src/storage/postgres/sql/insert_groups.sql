-- A group of that downstream is an error.
insert into sluicegate.edge_group (
  partition,
  downstream,
  flow,
  policy,
  k,
  on_satisfied,
  edges,
  satisfied,
  unsatisfied,
  decision
)
select
  r.partition,
  r.downstream,
  r.flow,
  r.policy,
  r.k,
  r.on_satisfied,
  r.edges,
  r.satisfied,
  r.unsatisfied,
  r.decision
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::uuid[],
      $4::int2[],
      $5::int8[],
      $6::int2[],
      $7::int8[],
      $8::int8[],
      $9::int8[],
      $10::int2[]
    ) as r (
      partition,
      downstream,
      flow,
      policy,
      k,
      on_satisfied,
      edges,
      satisfied,
      unsatisfied,
      decision
    )
  offset 0
) as r
