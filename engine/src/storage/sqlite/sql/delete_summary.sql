-- Guards nothing but the key: the summary is locked.
delete from sluicegate_flow_summary
where partition = :partition
and flow = :flow
