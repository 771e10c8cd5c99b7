-- Only edges on a path to one of these. Each execution is passed once, whatever leads up to it.
-- Takes the executions of one partition: a path never leaves it.
with recursive
  above (id) as (
    select unhex(wanted.value)
    from json_each(:executions) as wanted
    union
    select e.upstream
    from above as p
    cross join sluicegate_edge as e
    on e.partition = :partition
    and e.downstream = p.id
  )
select
  e.partition,
  e.downstream,
  e.upstream
from above as p
cross join sluicegate_edge as e
on e.partition = :partition
and e.downstream = p.id
order by e.downstream, e.upstream
