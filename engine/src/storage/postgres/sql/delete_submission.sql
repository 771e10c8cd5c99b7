-- Guards nothing but the key: the flow is locked.
delete from sluicegate.submission as s
where s.partition = $1::int4
and s.flow = $2::uuid
