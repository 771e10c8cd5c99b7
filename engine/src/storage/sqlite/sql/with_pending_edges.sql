-- Only pending edges; one is enough.
select
  partition,
  upstream
from edge indexed by edge_pending
where partition = :partition
and upstream = :upstream
and resolution = 0
order by downstream
limit 1
