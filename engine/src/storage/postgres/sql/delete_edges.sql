-- Guards nothing but the key: the groups are locked.
delete from sluicegate.edge as e
using (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, downstream)
  offset 0
) as r
where e.partition = r.partition
and e.downstream = r.downstream
