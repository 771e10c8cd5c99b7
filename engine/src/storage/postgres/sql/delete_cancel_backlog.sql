-- Guards nothing but the key: the flows are locked.
delete from sluicegate.cancel_backlog as b
using (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, flow)
  offset 0
) as r
where b.partition = r.partition
and b.flow = r.flow
returning
  b.partition,
  b.flow
