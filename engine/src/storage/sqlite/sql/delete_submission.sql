-- Guards nothing but the key: the flow is locked.
delete from sluicegate_submission
where partition = :partition
and flow = :flow
