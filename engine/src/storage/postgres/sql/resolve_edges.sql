-- Flips an edge once: only while it is pending. Its group is locked.
update sluicegate.edge as e
set
  resolution = r.resolution,
  upstream_incarnation = r.upstream_incarnation,
  input = r.input
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::uuid[],
      $4::int2[],
      $5::int8[],
      $6::int2[],
      $7::bool[]
    ) as r (
      partition,
      downstream,
      upstream,
      resolution,
      upstream_incarnation,
      input,
      guarded
    )
  offset 0
) as r
where e.partition = r.partition
and e.downstream = r.downstream
and e.upstream = r.upstream
and (e.resolution + 0 = 0 or not r.guarded)
returning
  e.partition,
  e.downstream,
  e.upstream
