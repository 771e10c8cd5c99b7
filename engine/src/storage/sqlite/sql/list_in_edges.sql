-- Guards nothing: the edges into one execution.
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
and (:after is null or upstream > :after)
order by upstream
limit :limit
