-- Guards nothing but the key: the flow is locked.
update sluicegate.flow as f
set
  closing = $3::int2,
  closed_by = $4::uuid,
  revision = $5::int8,
  tags = $6::text
where f.partition = $1::int4
and f.id = $2::uuid
