-- Guards nothing but the key: an edge waits again, whatever it was. Its group is locked.
update sluicegate.edge as e
set
  resolution = 0,
  upstream_incarnation = null,
  input = null
from (
  select r.*
  from unnest($1::int4[], $2::uuid[], $3::uuid[]) as r (partition, downstream, upstream)
  offset 0
) as r
where e.partition = r.partition
and e.downstream = r.downstream
and e.upstream = r.upstream
