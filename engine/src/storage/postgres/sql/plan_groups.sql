-- Only pending edges of upstreams that are terminal now, and of downstreams that a hop will skip.
-- The walk is breadth first and ends when two rows a group are there, which is the most that one
-- group shows up in; the groups that were reached first are kept. Only an edge that cannot be
-- satisfied any more may lead on: of the others neither group nor downstream is looked at.
with recursive
  planned (downstream, will_skip) as (
    select
      e.downstream,
      case
        when e.accepts & (1 << (u.state - 4)) <> 0 then false
        else (
          select
            g.policy = 1
            and g.decision = 0
            and x.state = 0
          from sluicegate.edge_group as g
          join sluicegate.execution as x
          on x.partition = g.partition
          and x.id = g.downstream
          where g.partition = r.partition
          and g.downstream = e.downstream
        )
      end as will_skip
    from (
      select
        $1::int4 as partition,
        r.id
      from unnest($2::uuid[]) as r (id)
      offset 0
    ) as r
    cross join lateral (
      select u.state
      from sluicegate.execution as u
      where u.partition = r.partition
      and u.id = r.id
      and u.state + 0 >= 4
      offset 0
    ) as u
    cross join lateral (
      select
        e.downstream,
        e.accepts
      from sluicegate.edge as e
      where e.partition = r.partition
      and e.upstream = r.id
      and e.resolution = 0
      offset 0
    ) as e
    union
    select
      e.downstream,
      case
        when e.accepts & 16 <> 0 then false
        else (
          select
            g.policy = 1
            and g.decision = 0
            and x.state = 0
          from sluicegate.edge_group as g
          join sluicegate.execution as x
          on x.partition = g.partition
          and x.id = g.downstream
          where g.partition = $1::int4
          and g.downstream = e.downstream
        )
      end
    from planned as p
    cross join lateral (
      select
        e.downstream,
        e.accepts
      from sluicegate.edge as e
      where e.partition = $1::int4
      and e.upstream = p.downstream
      and e.resolution = 0
      offset 0
    ) as e
    where p.will_skip
  ),
  reached as (
    select
      p.downstream,
      row_number() over () as place
    from (
      select downstream
      from planned
      limit $3::int8 * 2
    ) as p
  )
select r.downstream
from reached as r
group by r.downstream
order by min(r.place)
limit $3::int8
