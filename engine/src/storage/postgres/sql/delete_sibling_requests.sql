-- Guards nothing but the key: the flows are locked.
delete from sluicegate.sibling_request as s
using (
  select r.*
  from unnest($1::int4[], $2::uuid[]) as r (partition, downstream)
  offset 0
) as r
where s.partition = r.partition
and s.downstream = r.downstream
returning
  s.partition,
  s.downstream
