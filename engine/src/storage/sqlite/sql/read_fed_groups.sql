-- Only pending edges; a group without a row shows as null, never as no edge.
select
  e.partition,
  e.downstream,
  e.upstream,
  g.policy,
  g.k,
  g.on_satisfied,
  g.decision
from edge as e indexed by edge_pending
left join edge_group as g
on g.partition = e.partition
and g.downstream = e.downstream
where e.partition = :partition
and e.upstream = :upstream
and e.resolution = 0
order by e.downstream
