-- Guards nothing: the edges of one flow, counted by its groups.
select coalesce(sum(edges), 0) as edges
from sluicegate_edge_group
where partition = :partition
and flow = :flow
and downstream >= :first
and downstream <= :last
order by edges
