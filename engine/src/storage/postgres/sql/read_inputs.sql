-- Guards nothing: what executions are passed; results as long as their sum is within the limit.
-- An edge is an input by what it was when its group decided, not by how its upstream stands now.
select
  i.partition,
  i.downstream,
  i.upstream,
  i.passes_as,
  i.input,
  i.bytes,
  case when i.total <= $5::int8 or i.total = i.bytes then i.result end as result
from (
  select
    e.partition,
    e.downstream,
    e.upstream,
    e.passes_as,
    e.input,
    e.result,
    coalesce(octet_length(e.result), 0)::int8 as bytes,
    (
      sum(coalesce(octet_length(e.result), 0))
      over (partition by e.partition, e.downstream order by e.upstream)
    )::int8 as total
  from (
    select r.*
    from unnest($1::int4[], $2::uuid[]) as r (partition, downstream)
    offset 0
  ) as r
  cross join lateral (
    select
      e.partition,
      e.downstream,
      e.upstream,
      e.passes_as,
      e.input,
      case
        when e.input = 0 and x.incarnation = e.upstream_incarnation then x.result
      end as result
    from sluicegate.edge as e
    left join sluicegate.execution as x
    on x.partition = e.partition
    and x.id = e.upstream
    where e.partition = r.partition
    and e.downstream = r.downstream
    and e.passes_as is not null
    and e.input is not null
    and ($3::uuid is null or e.upstream > $3::uuid)
    order by e.upstream
    limit $4::int8
  ) as e
) as i
where i.total - i.bytes <= $5::int8
order by i.partition, i.downstream, i.upstream
