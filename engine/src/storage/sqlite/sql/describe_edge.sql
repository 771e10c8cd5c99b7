-- Guards nothing: one row by its key.
select
  partition,
  downstream,
  upstream,
  accepts,
  resolution,
  upstream_incarnation,
  input,
  passes_as
from sluicegate_edge
where partition = :partition
and downstream = :downstream
and upstream = :upstream
