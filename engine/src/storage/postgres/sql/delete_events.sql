-- Only events that have a place: the head of their stream is locked.
delete from sluicegate.completion_event as v
using (
  select r.*
  from unnest($1::int4[], $2::uuid[], $3::int8[]) as r (partition, execution, incarnation)
  offset 0
) as r
where v.partition = r.partition
and v.execution = r.execution
and v.incarnation = r.incarnation
and coalesce(v.position, 0) > 0
