-- Only pending edges of upstreams that are terminal now, and of downstreams that a hop will skip.
-- The walk is breadth first and ends when the limit is reached.
with recursive
  planned (downstream, will_skip) as (
    select
      e.downstream,
      e.accepts & (1 << (u.state - 4)) = 0
      and g.policy = 1
      and g.decision = 0
      and x.state = 0
    from json_each(:upstreams) as wanted
    cross join execution as u
    on u.partition = :partition
    and u.id = unhex(wanted.value)
    and u.state >= 4
    cross join edge as e
    on e.partition = u.partition
    and e.upstream = u.id
    and e.resolution = 0
    cross join edge_group as g
    on g.partition = e.partition
    and g.downstream = e.downstream
    cross join execution as x
    on x.partition = e.partition
    and x.id = e.downstream
    union
    select
      e.downstream,
      e.accepts & 16 = 0
      and g.policy = 1
      and g.decision = 0
      and x.state = 0
    from planned as p
    cross join edge as e
    on e.partition = :partition
    and e.upstream = p.downstream
    and e.resolution = 0
    cross join edge_group as g
    on g.partition = e.partition
    and g.downstream = e.downstream
    cross join execution as x
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
