-- Guards nothing but the key: the groups are locked.
delete from sluicegate.edge_group as g
using (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, downstream)
  offset 0
) as r
where g.partition = r.partition
and g.downstream = r.downstream
