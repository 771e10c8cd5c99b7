-- Only pending edges of upstreams that are terminal now, and of downstreams that a hop will skip.
-- The walk is breadth first and ends when the limit is reached; its first step has a limit too,
-- two rows a group, since a recursive query runs that step to its end before it yields a row.
with recursive
  planned (downstream, will_skip) as (
    select
      downstream,
      will_skip
    from (
      select distinct
        e.downstream,
        e.accepts & (1 << (u.state - 4)) = 0
        and g.policy = 1
        and g.decision = 0
        and x.state = 0 as will_skip
      from json_each(:upstreams) as wanted
      cross join sluicegate_execution as u
      on u.partition = :partition
      and u.id = unhex(wanted.value)
      and u.state >= 4
      cross join sluicegate_edge as e indexed by sluicegate_edge_pending
      on e.partition = u.partition
      and e.upstream = u.id
      and e.resolution = 0
      cross join sluicegate_edge_group as g
      on g.partition = e.partition
      and g.downstream = e.downstream
      cross join sluicegate_execution as x
      on x.partition = e.partition
      and x.id = e.downstream
      limit :limit * 2
    )
    union
    select
      e.downstream,
      e.accepts & 16 = 0
      and g.policy = 1
      and g.decision = 0
      and x.state = 0
    from planned as p
    cross join sluicegate_edge as e indexed by sluicegate_edge_pending
    on e.partition = :partition
    and e.upstream = p.downstream
    and e.resolution = 0
    cross join sluicegate_edge_group as g
    on g.partition = e.partition
    and g.downstream = e.downstream
    cross join sluicegate_execution as x
    on x.partition = e.partition
    and x.id = e.downstream
    where p.will_skip
  )
select downstream
from (
  select distinct downstream
  from planned
  limit :limit
)
order by downstream
