-- The tables of schema version 1.
-- States, causes and policies are the codes of `storage/codes.rs`; instants are microseconds since
-- the Unix epoch; an epoch, a nonce and a hash are 64 bits in a signed integer. Every primary key
-- but those of a submission and of the feed leads with the partition, so that the tables can be
-- distributed by it.
-- No foreign keys: their locks would close cycles. One full index a table serves look-ups by key,
-- and by flow, whose rows are a range of keys; the others are partial. A second full index led by
-- the partition would pass for it in plans made before there are statistics. Rows that change have
-- room for their next version on their page.
-- A statement parses and compiles every check and every generated column of its table anew: of a
-- single-row update the checks that the SQLite twin has took two thirds. So a table has one, for
-- what must not stand together; a code that means nothing is refused when it is read. What SQLite
-- generates is an expression of an index here.

create table sluicegate.sluicegate_schema (
  version int4 primary key check (version >= 1),
  least_engine_version int4 not null check (least_engine_version between 1 and version),
  applied_at int8 not null
);

create table sluicegate.sluicegate_partitions (
  one int4 primary key check (one = 1),
  count int4 not null check (count between 1 and 65535)
);

create table sluicegate.submission (
  namespace text not null,
  key text not null,
  partition int4 not null,
  flow uuid not null,
  content_hash bytea not null,
  request uuid not null,
  primary key (namespace, key)
);

create index submission_by_flow
on sluicegate.submission (partition, flow);

create table sluicegate.flow (
  partition int4 not null,
  id uuid not null,
  namespace text not null,
  instance_tag text,
  closing int2,
  closed_by uuid,
  revision int8 not null,
  tags text,
  content_hash bytea not null,
  request uuid not null,
  created_at int8 not null,
  primary key (partition, id)
) with (fillfactor = 80);

-- `rows::claim_rank`, with its saturation.
create function sluicegate.claim_rank(not_before int8, priority int4) returns int8
language sql immutable parallel safe
as $$
  select case
    when priority >= 0
      then greatest(not_before, -9223372036854775807 - 1 + priority::int8 * 60000000)
    else least(not_before, 9223372036854775807 + priority::int8 * 60000000)
  end - priority::int8 * 60000000
$$;

-- `Execution::attempt_over_at`, with its saturation.
create function sluicegate.attempt_over_at(
  granted_at int8,
  expires_at int8,
  attempt_timeout_ms int8
) returns int8
language sql immutable parallel safe
as $$
  select case
    when attempt_timeout_ms is null then expires_at
    else least(
      expires_at,
      least(granted_at, 9223372036854775807 - attempt_timeout_ms * 1000)
        + attempt_timeout_ms * 1000
    )
  end
$$;

create table sluicegate.execution (
  partition int4 not null,
  id uuid not null,
  flow uuid not null,
  state int2 not null,
  cause int2,
  incarnation int8 not null,
  propagated bool not null,
  has_in bool not null,
  has_inputs bool not null,
  has_out bool not null,
  not_before int8 not null,
  deadline int8,
  attempt int8 not null,
  charged int8 not null,
  give_backs int8 not null,
  resumed_epoch int8,
  resumed_outcome int2,
  progress_attempt int8,
  progress_sequence int8,
  epoch int8 not null,
  nonce int8,
  request uuid,
  granted_at int8,
  expires_at int8,
  finished_at int8,
  max_attempts int8 not null,
  backoff int2 not null,
  backoff_delay_ms int8 not null,
  backoff_factor int8,
  backoff_cap_ms int8,
  attempt_timeout_ms int8,
  worker text,
  instance text,
  name text not null,
  kind text not null,
  lane text not null,
  priority int4 not null,
  namespace text not null,
  instance_tag text,
  payload bytea not null,
  result bytea,
  progress bytea,
  primary key (partition, id),
  check (
    num_nulls(nonce, request, granted_at, expires_at, worker, instance)
      = case when state = 2 then 0 else 6 end
    and num_nulls(cause, finished_at) = case when state >= 4 then 0 else 2 end
    and (state >= 4 or not propagated)
  )
) with (fillfactor = 50);

create index execution_blocked
on sluicegate.execution (partition, id)
where state = 0;

create index execution_claimable
on sluicegate.execution (
  lane,
  sluicegate.claim_rank(not_before, priority),
  not_before,
  partition,
  id
)
where state = 1;

create index execution_by_request
on sluicegate.execution (request)
where state = 2;

create index execution_attempt_over
on sluicegate.execution (
  sluicegate.attempt_over_at(granted_at, expires_at, attempt_timeout_ms)
)
where state = 2;

create index execution_deadline
on sluicegate.execution (deadline)
where state < 4 and deadline is not null;

create index execution_unpropagated
on sluicegate.execution (partition, id)
where state >= 4 and not propagated;

create table sluicegate.edge_group (
  partition int4 not null,
  downstream uuid not null,
  flow uuid not null,
  policy int2 not null,
  k int8,
  on_satisfied int2,
  edges int8 not null,
  satisfied int8 not null,
  unsatisfied int8 not null,
  decision int2 not null,
  primary key (partition, downstream),
  check (
    (policy = 3) = (k is not null)
    and (policy = 1) = (on_satisfied is null)
    and satisfied + unsatisfied <= edges
  )
) with (fillfactor = 50);

create table sluicegate.edge (
  partition int4 not null,
  downstream uuid not null,
  upstream uuid not null,
  accepts int2 not null,
  resolution int2 not null,
  upstream_incarnation int8,
  input int2,
  passes_as text,
  primary key (partition, downstream, upstream),
  check (
    (resolution = 0) = (upstream_incarnation is null)
    and (input is null or resolution = 1)
    and downstream <> upstream
  )
) with (fillfactor = 55);

create index edge_pending
on sluicegate.edge (partition, upstream, downstream)
where resolution = 0;

create table sluicegate.attempt (
  partition int4 not null,
  execution uuid not null,
  incarnation int8 not null,
  attempt int8 not null,
  epoch int8 not null,
  nonce int8 not null,
  ending int2 not null,
  reported int2 not null,
  reported_value int8 not null,
  payload_hash int8 not null,
  granted_at int8 not null,
  ended_at int8 not null,
  worker text,
  instance text,
  primary key (partition, execution, incarnation, attempt)
);

-- What is said of a lease is part of the key: all zero in a completion event, of which an
-- incarnation has one.
create table sluicegate.event (
  id int8 generated always as identity,
  partition int4 not null,
  execution uuid not null,
  flow uuid not null,
  incarnation int8 not null,
  lease_attempt int8 not null,
  lease_change int2 not null,
  lease_expires_at int8 not null,
  outcome int2,
  occurred_at int8 not null,
  namespace text not null,
  instance_tag text,
  position int8,
  primary key (
    partition,
    execution,
    incarnation,
    lease_attempt,
    lease_change,
    lease_expires_at
  ),
  check ((outcome is null) = (lease_change > 0))
) with (fillfactor = 60);

create index event_by_id
on sluicegate.event (id);

create index event_unnumbered
on sluicegate.event (id)
where position is null;

create index event_by_position
on sluicegate.event (position)
where position is not null;

create table sluicegate.flow_change (
  id int8 generated always as identity,
  partition int4 not null,
  flow uuid not null,
  primary key (partition, flow, id)
);

-- One row a flow; `ended_at` stands exactly while the status is a terminal one.
create table sluicegate.flow_summary (
  partition int4 not null,
  flow uuid not null,
  blocked int8 not null,
  ready int8 not null,
  active int8 not null,
  suspended int8 not null,
  succeeded int8 not null,
  failed int8 not null,
  cancelled int8 not null,
  expired int8 not null,
  skipped int8 not null,
  status int2 not null,
  ended_at int8,
  last_change int8 not null,
  primary key (partition, flow),
  check ((status >= 3) = (ended_at is not null))
) with (fillfactor = 50);

create index flow_summary_ended
on sluicegate.flow_summary (ended_at, partition, flow)
where ended_at is not null;

create table sluicegate.sibling_request (
  partition int4 not null,
  downstream uuid not null,
  flow uuid not null,
  primary key (partition, downstream)
);

create table sluicegate.request (
  partition int4 not null,
  flow uuid not null,
  request uuid not null,
  content_hash bytea not null,
  reply bytea not null,
  primary key (partition, flow, request)
);

create table sluicegate.cancel_backlog (
  partition int4 not null,
  flow uuid not null,
  primary key (partition, flow)
);

create table sluicegate.stream_head (
  stream int8 primary key,
  timeline uuid not null,
  last_position int8 not null,
  horizon int8 not null
) with (fillfactor = 10);

insert into sluicegate.stream_head (stream, timeline, last_position, horizon)
values (0, gen_random_uuid(), 0, 0);

create table sluicegate.subscription (
  name text primary key,
  timeline uuid not null,
  position int8 not null
) with (fillfactor = 10);
