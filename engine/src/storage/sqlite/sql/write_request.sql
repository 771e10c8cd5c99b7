-- Guards nothing but the key: the flow is locked.
update sluicegate_request
set
  reply = :reply
where partition = :partition
and flow = :flow
and request = :request
