-- Guards nothing but the key: the executions are locked.
delete from sluicegate.execution as x
using (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, id)
  offset 0
) as r
where x.partition = r.partition
and x.id = r.id
