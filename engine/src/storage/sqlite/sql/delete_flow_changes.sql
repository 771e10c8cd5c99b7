-- Guards nothing but the key: the summary of the flow is locked.
delete from sluicegate_flow_change
where partition = :partition
and flow = :flow
returning
  id
