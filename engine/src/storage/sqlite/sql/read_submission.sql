-- Guards nothing: one row by its key.
select
  partition,
  flow,
  content_hash,
  request
from sluicegate_submission
where namespace = :namespace
and key = :key
