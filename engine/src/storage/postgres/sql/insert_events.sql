-- A second event of an incarnation is an error. The execution is locked: its labels are copied.
insert into sluicegate.completion_event (
  partition,
  execution,
  flow,
  incarnation,
  outcome,
  occurred_at,
  namespace,
  instance_tag
)
select
  r.partition,
  r.execution,
  r.flow,
  r.incarnation,
  r.outcome,
  r.occurred_at,
  x.namespace,
  x.instance_tag
from (
  select r.*
  from unnest(
      $1::int4[],
      $2::uuid[],
      $3::uuid[],
      $4::int8[],
      $5::int2[],
      $6::int8[]
    ) as r (
      partition,
      execution,
      flow,
      incarnation,
      outcome,
      occurred_at
    )
  offset 0
) as r
join sluicegate.execution as x
on x.partition = r.partition
and x.id = r.execution
