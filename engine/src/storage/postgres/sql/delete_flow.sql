-- Guards nothing but the key: the flow is locked.
delete from sluicegate.flow as f
where f.partition = $1::int4
and f.id = $2::uuid
