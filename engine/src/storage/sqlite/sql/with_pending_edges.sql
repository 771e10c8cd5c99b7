-- Only pending edges; one is enough.
select
  partition,
  upstream
from sluicegate_edge indexed by sluicegate_edge_pending
where partition = :partition
and upstream = :upstream
and resolution = 0
order by downstream
limit 1
