-- Guards nothing but the key: the summary is locked.
update sluicegate.flow_summary as s
set
  blocked = $3::int8,
  ready = $4::int8,
  active = $5::int8,
  suspended = $6::int8,
  succeeded = $7::int8,
  failed = $8::int8,
  cancelled = $9::int8,
  expired = $10::int8,
  skipped = $11::int8,
  status = $12::int2,
  ended_at = $13::int8,
  last_change = $14::int8
where s.partition = $1::int4
and s.flow = $2::uuid
