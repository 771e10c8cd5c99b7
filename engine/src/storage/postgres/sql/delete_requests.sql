-- Guards nothing but the key: the flow is locked.
delete from sluicegate.request as q
where q.partition = $1::int4
and q.flow = $2::uuid
