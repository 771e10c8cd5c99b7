-- Guards nothing: one row by its key.
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
and e.upstream = $3::uuid
order by e.partition, e.downstream, e.upstream
