-- Guards nothing: one row by its key.
select
  q.partition,
  q.flow,
  q.request,
  q.content_hash,
  q.reply
from sluicegate.request as q
where q.partition = $1::int4
and q.flow = $2::uuid
and q.request = $3::uuid
order by q.partition, q.flow, q.request
