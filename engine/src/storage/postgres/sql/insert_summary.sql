-- A flow that has a summary is an error.
insert into sluicegate.flow_summary (
  partition,
  flow,
  blocked,
  ready,
  active,
  suspended,
  succeeded,
  failed,
  cancelled,
  expired,
  skipped,
  status,
  ended_at,
  last_change
)
values (
  $1::int4,
  $2::uuid,
  $3::int8,
  $4::int8,
  $5::int8,
  $6::int8,
  $7::int8,
  $8::int8,
  $9::int8,
  $10::int8,
  $11::int8,
  $12::int2,
  $13::int8,
  $14::int8
)
