-- Guards nothing but the key: the flow is locked.
update sluicegate_flow
set
  closing = :closing,
  closed_by = :closed_by,
  revision = :revision,
  tags = :tags
where partition = :partition
and id = :id
