-- Decided, and its downstream still blocked.
-- Walks the blocked executions: they are few beside the groups that were ever decided.
select
  x.partition,
  x.id
from sluicegate.execution as x
cross join lateral (
  select 1
  from sluicegate.edge_group as g
  where g.partition = x.partition
  and g.downstream = x.id
  and g.decision <> 0
  offset 0
) as g
where x.state = 0
and x.partition >= $1::int4
and x.partition < $2::int4
and (x.partition, x.id) > ($3::int4, $4::uuid)
and ($5::text is null or x.namespace = $5::text)
and ($6::text is null or x.instance_tag = $6::text)
order by x.partition, x.id
limit $7::int8
