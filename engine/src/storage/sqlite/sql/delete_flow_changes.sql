-- Guards nothing but the key: the summary of the flow is locked.
delete from flow_change
where partition = :partition
and flow = :flow
returning
  id
