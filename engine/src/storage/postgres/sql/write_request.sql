-- Guards nothing but the key: the flow is locked.
update sluicegate.request as q
set
  reply = $4::bytea
where q.partition = $1::int4
and q.flow = $2::uuid
and q.request = $3::uuid
