-- Only pending edges; an upstream without a row shows as null, never as no edge.
select
  e.partition,
  e.downstream,
  e.upstream,
  e.accepts,
  x.state,
  x.incarnation
from sluicegate_edge as e
left join sluicegate_execution as x
on x.partition = e.partition
and x.id = e.upstream
where e.partition = :partition
and e.downstream = :downstream
and e.resolution = 0
order by e.upstream
