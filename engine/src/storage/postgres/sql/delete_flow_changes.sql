-- Guards nothing but the key: the summary of the flow is locked.
delete from sluicegate.flow_change as c
where c.partition = $1::int4
and c.flow = $2::uuid
returning
  c.id
