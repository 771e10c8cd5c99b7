-- Guards nothing but the key: the executions are locked.
delete from sluicegate.attempt as a
using (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, execution)
  offset 0
) as r
where a.partition = r.partition
and a.execution = r.execution
