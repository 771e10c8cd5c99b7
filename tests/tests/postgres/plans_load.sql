-- Fills a schema with :rows executions of :flows flows and a small flow beside them, in partitions
-- 0 to 255: half of them ready, a fifth blocked, a tenth active, a fifth over. Some are rows that a
-- walk looks at in vain: delayed ones, those of closed flows, blocked ones that nothing has decided.
create temporary table loaded as
select
  i,
  f,
  f % 256 as partition,
  (lpad(to_hex(f + 1), 12, '0') || '70008000000000000000')::uuid as flow,
  (lpad(to_hex(f + 1), 12, '0') || '80008000' || lpad(to_hex(i::int8 * 7919 % 1000003), 12, '0'))::uuid as id,
  (array[1, 1, 1, 1, 1, 0, 0, 2, 4, 4])[1 + i / (:flows + 1) % 10] as state
from (
  select
    i,
    case when i <= 40 then 0 else 1 + i % :flows end as f
  from generate_series(1, :rows) as i
) as i;

update loaded
set state = (array[1, 0, 2, 4])[1 + i % 4]
where f = 0;

insert into sluicegate.flow (
  partition, id, namespace, instance_tag, closing, revision, content_hash, request, created_at
)
select distinct
  partition, flow, 'default', 'one', case when f % 10 = 9 then 2 end, 0, ''::bytea, flow, 0
from loaded;

insert into sluicegate.flow_summary (
  partition, flow, blocked, ready, active, suspended, succeeded, failed, cancelled, expired,
  skipped, status, ended_at, last_change
)
select
  partition, flow, 1, 1, 1, 0, 1, 0, 0, 0, 0,
  case when f % 5 = 4 then 3 else 1 end, case when f % 5 = 4 then f end, 0
from (select distinct partition, flow, f from loaded) as f;

insert into sluicegate.submission (namespace, key, partition, flow, content_hash, request)
select 'default', f::text, partition, flow, ''::bytea, flow
from (select distinct partition, flow, f from loaded) as f;

insert into sluicegate.request (partition, flow, request, content_hash, reply)
select partition, flow, id, ''::bytea, ''::bytea
from loaded
where i % 11 = 0;

insert into sluicegate.flow_change (partition, flow)
select partition, flow
from loaded
where i % 41 = 0;

insert into sluicegate.cancel_backlog (partition, flow)
select distinct partition, flow
from loaded
where f % 50 = 1;

insert into sluicegate.sibling_request (partition, downstream, flow)
select partition, id, flow
from loaded
where state = 0 and i % 41 = 1;

insert into sluicegate.execution (
  partition, id, flow, state, cause, incarnation, propagated, has_in, has_inputs, has_out,
  not_before, deadline, attempt, charged, give_backs, epoch, nonce, request, granted_at,
  expires_at, finished_at, max_attempts, backoff, backoff_delay_ms, worker, instance, name, kind,
  lane, priority, namespace, instance_tag, payload
)
select
  partition, id, flow, state, case when state = 4 then 1 end, 0, state = 4 and i % 51 <> 0,
  state <> 1, false, true,
  case when i % 21 = 0 then 1::int8 << 50 else i end, case when i % 101 = 0 then 1::int8 << 50 end,
  case when state >= 2 then 1 else 0 end, 0, 0, 1, case when state = 2 then 1 end,
  case when state = 2 then id end, case when state = 2 then 0 end,
  case when state = 2 then case when i % 401 = 7 then i else (1::int8 << 50) + i end end, case when state = 4 then i end, 4, 1, 0,
  case when state = 2 then 'w' end, case when state = 2 then 'i' end, 'n' || i, 'k' || i % 4,
  'default', 0, 'default', 'one', ''
from loaded;

insert into sluicegate.edge_group (
  partition, downstream, flow, policy, edges, satisfied, unsatisfied, decision
)
select partition, id, flow, 1, 2, 0, 0, case when state = 0 then 0 else 1 end
from loaded
where state <> 1;

-- Its neighbours in the flow are its upstreams.
insert into sluicegate.edge (
  partition, downstream, upstream, accepts, resolution, upstream_incarnation
)
select
  e.partition, e.id, u.id, 1, case when e.state = 0 then 0 else 1 end,
  case when e.state <> 0 then 0 end
from (
  select
    partition,
    id,
    state,
    lag(id) over flow as first,
    lead(id) over flow as second
  from loaded
  window flow as (partition by flow order by i)
) as e
cross join lateral (values (e.first), (e.second)) as u (id)
where e.state <> 1
and u.id is not null;

insert into sluicegate.attempt (
  partition, execution, incarnation, attempt, epoch, nonce, ending, reported, reported_value,
  payload_hash, granted_at, ended_at
)
select partition, id, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0
from loaded
where state = 4;

insert into sluicegate.event (
  partition, execution, flow, incarnation, lease_attempt, lease_change, lease_expires_at, outcome,
  occurred_at, namespace, instance_tag, position
)
select
  partition, id, flow, 0, 0, 0, 0, 0, i, 'default', 'one',
  case when i % 51 <> 0 then row_number() over (order by i) end
from loaded
where state = 4;

update sluicegate.stream_head
set last_position = :rows;

insert into sluicegate.subscription (name, timeline, position)
select 'consumer', timeline, 0
from sluicegate.stream_head;
