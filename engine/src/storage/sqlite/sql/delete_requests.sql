-- Guards nothing but the key: the flow is locked.
delete from sluicegate_request
where partition = :partition
and flow = :flow
