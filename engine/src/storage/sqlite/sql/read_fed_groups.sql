-- Only pending edges; a group without a row shows as null, never as no edge.
select
  e.partition,
  e.downstream,
  e.upstream,
  g.policy,
  g.k,
  g.on_satisfied,
  g.decision
from sluicegate_edge as e indexed by sluicegate_edge_pending
left join sluicegate_edge_group as g
on g.partition = e.partition
and g.downstream = e.downstream
where e.partition = :partition
and e.upstream = :upstream
and e.resolution = 0
order by e.downstream
