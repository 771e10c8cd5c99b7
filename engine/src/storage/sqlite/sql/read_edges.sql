-- Guards nothing: the edges of a group, resolved ones too.
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
order by upstream
