-- Guards nothing: the edges of one flow, counted by its groups.
select coalesce(sum(g.edges), 0)::int8 as edges
from sluicegate.edge_group as g
where g.partition = $1::int4
and g.flow = $2::uuid
and g.downstream >= $3::uuid
and g.downstream <= $4::uuid
order by edges
