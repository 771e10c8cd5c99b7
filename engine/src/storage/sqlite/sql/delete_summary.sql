-- Guards nothing but the key: the summary is locked.
delete from flow_summary
where partition = :partition
and flow = :flow
