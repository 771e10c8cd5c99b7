-- Guards nothing: one row by its key.
select
  partition,
  flow,
  request,
  content_hash,
  reply
from sluicegate_request
where partition = :partition
and flow = :flow
and request = :request
