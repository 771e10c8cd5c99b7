-- Guards nothing: the edges into one execution.
select
  e.partition,
  e.downstream,
  e.upstream,
  e.accepts,
  e.resolution,
  e.upstream_incarnation,
  e.input,
  e.passes_as
from sluicegate.edge as e
where e.partition = $1::int4
and e.downstream = $2::uuid
and ($3::uuid is null or e.upstream > $3::uuid)
order by e.upstream
limit $4::int8
