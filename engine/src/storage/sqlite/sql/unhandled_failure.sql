-- Failed or expired, and no out-edge accepts that.
-- Takes the edges once, through the groups of the flow: there is no index by upstream over all.
select
  x.partition,
  x.id
from sluicegate_execution as x
where x.partition = :partition
and x.flow = :flow
and x.id >= :first
and x.id <= :last
and x.state in (5, 7)
except
select
  e.partition,
  e.upstream
from sluicegate_edge_group as g
cross join sluicegate_edge as e
on e.partition = g.partition
and e.downstream = g.downstream
cross join sluicegate_execution as x
on x.partition = e.partition
and x.id = e.upstream
where g.partition = :partition
and g.flow = :flow
and g.downstream >= :first
and g.downstream <= :last
and x.state in (5, 7)
and (e.accepts >> (x.state - 4)) & 1 = 1
order by partition, id
limit 1
