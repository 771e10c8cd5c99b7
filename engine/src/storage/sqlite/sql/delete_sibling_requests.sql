-- Guards nothing but the key: the flow is locked.
delete from sluicegate_sibling_request
where partition = :partition
and downstream = :downstream
