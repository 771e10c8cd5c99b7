-- Guards nothing but the key: the summary is locked.
delete from sluicegate.flow_summary as s
where s.partition = $1::int4
and s.flow = $2::uuid
