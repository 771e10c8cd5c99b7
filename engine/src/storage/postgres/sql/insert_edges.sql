-- An edge between the two is an error.
insert into sluicegate.edge (
  partition,
  downstream,
  upstream,
  accepts,
  resolution,
  upstream_incarnation,
  input,
  passes_as
)
select
  r.partition,
  r.downstream,
  r.upstream,
  r.accepts,
  r.resolution,
  r.upstream_incarnation,
  r.input,
  r.passes_as
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::uuid[],
      $4::int2[],
      $5::int2[],
      $6::int8[],
      $7::int2[],
      $8::text[]
    ) as r (
      partition,
      downstream,
      upstream,
      accepts,
      resolution,
      upstream_incarnation,
      input,
      passes_as
    )
  offset 0
) as r
