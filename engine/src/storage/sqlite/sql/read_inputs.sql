-- Guards nothing: what an execution is passed; results as long as their sum is within the limit.
-- An edge is an input by what it was when its group decided, not by how its upstream stands now.
select
  summed.partition,
  summed.downstream,
  summed.upstream,
  summed.passes_as,
  summed.input,
  summed.bytes,
  iif(summed.total <= :bytes_max or summed.total = summed.bytes, summed.result, null) as result
from (
  select
    passed.partition,
    passed.downstream,
    passed.upstream,
    passed.passes_as,
    passed.input,
    passed.result,
    coalesce(length(passed.result), 0) as bytes,
    sum(coalesce(length(passed.result), 0)) over (order by passed.upstream) as total
  from (
    select
      e.partition,
      e.downstream,
      e.upstream,
      e.passes_as,
      e.input,
      iif(e.input = 0 and x.incarnation = e.upstream_incarnation, x.result, null) as result
    from sluicegate_edge as e
    left join sluicegate_execution as x
    on x.partition = e.partition
    and x.id = e.upstream
    where e.partition = :partition
    and e.downstream = :downstream
    and e.passes_as is not null
    and e.input is not null
    and (:after is null or e.upstream > :after)
    order by e.upstream
    limit :limit
  ) as passed
) as summed
where summed.total - summed.bytes <= :bytes_max
order by summed.upstream
