-- Guards nothing: one row by its key.
select
  s.partition,
  s.flow,
  s.content_hash,
  s.request
from sluicegate.submission as s
where s.namespace = $1::text
and s.key = $2::text
order by s.namespace, s.key
