-- The tables of schema version 1.
-- States, causes and policies are the codes of `storage/codes.rs`; instants are microseconds since
-- the Unix epoch; identifiers are the 16 bytes of a UUID; an epoch, a nonce and a hash are 64 bits
-- in a signed integer. A row that no engine writes is refused by a check.

create table sluicegate_schema (
  version integer primary key check (version >= 1),
  least_engine_version integer not null check (least_engine_version between 1 and version),
  applied_at integer not null
) strict;

create table sluicegate_partitions (
  one integer primary key check (one = 1),
  count integer not null check (count between 1 and 65535)
) strict;

create table sluicegate_submission (
  namespace text not null,
  key text not null,
  partition integer not null check (partition between 0 and 65534),
  flow blob not null check (length(flow) = 16),
  content_hash blob not null check (length(content_hash) = 32),
  request blob not null check (length(request) = 16),
  primary key (namespace, key)
) strict, without rowid;

create index sluicegate_submission_by_flow
on sluicegate_submission (partition, flow);

create table sluicegate_flow (
  partition integer not null check (partition between 0 and 65534),
  id blob not null check (length(id) = 16),
  namespace text not null,
  instance_tag text,
  closing integer check (closing between 1 and 3),
  closed_by blob check (length(closed_by) = 16),
  revision integer not null check (revision >= 0),
  tags text,
  content_hash blob not null check (length(content_hash) = 32),
  request blob not null check (length(request) = 16),
  created_at integer not null,
  primary key (partition, id)
) strict, without rowid;

-- A rowid table: its rows may be large, and a claim names them by rowid. The two large columns come
-- last, so that nothing else is read through their overflow pages.
create table sluicegate_execution (
  partition integer not null check (partition between 0 and 65534),
  id blob not null check (length(id) = 16),
  flow blob not null check (length(flow) = 16),
  state integer not null check (state between 0 and 8),
  cause integer check (cause between 1 and 8),
  incarnation integer not null check (incarnation >= 0),
  propagated integer not null check (propagated in (0, 1)),
  has_in integer not null check (has_in in (0, 1)),
  has_inputs integer not null check (has_inputs in (0, 1)),
  has_out integer not null check (has_out in (0, 1)),
  not_before integer not null,
  deadline integer,
  attempt integer not null check (attempt >= 0),
  charged integer not null check (charged >= 0),
  give_backs integer not null check (give_backs >= 0),
  resumed_epoch integer,
  resumed_outcome integer check (resumed_outcome between 0 and 4),
  progress_attempt integer check (progress_attempt > 0),
  progress_sequence integer,
  epoch integer not null,
  nonce integer,
  request blob check (length(request) = 16),
  granted_at integer,
  expires_at integer,
  finished_at integer,
  max_attempts integer not null check (max_attempts >= 0),
  backoff integer not null check (backoff in (1, 2)),
  backoff_delay_ms integer not null check (backoff_delay_ms >= 0),
  backoff_factor integer check (backoff_factor >= 0),
  backoff_cap_ms integer check (backoff_cap_ms >= 0),
  attempt_timeout_ms integer check (attempt_timeout_ms >= 0),
  worker text,
  instance text,
  name text not null,
  kind text not null,
  lane text not null,
  priority integer not null check (priority between -2147483648 and 2147483647),
  namespace text not null,
  instance_tag text,
  -- `rows::claim_rank`, with its saturation.
  claim_rank integer not null generated always as (
    iif(
      priority >= 0,
      max(not_before, -9223372036854775807 - 1 + priority * 60000000),
      min(not_before, 9223372036854775807 + priority * 60000000)
    ) - priority * 60000000
  ) virtual,
  -- `Execution::attempt_over_at`, with its saturation.
  attempt_over_at integer generated always as (
    iif(
      attempt_timeout_ms is null,
      expires_at,
      min(
        expires_at,
        min(granted_at, 9223372036854775807 - attempt_timeout_ms * 1000) + attempt_timeout_ms * 1000
      )
    )
  ) virtual,
  payload blob not null,
  result blob,
  progress blob,
  primary key (partition, id),
  check ((state = 2) = (nonce is not null)),
  check (resumed_outcome is null or resumed_epoch is not null),
  check ((progress_attempt is null) = (progress_sequence is null)),
  check ((progress_attempt is null) = (progress is null)),
  check ((nonce is null) = (request is null)),
  check ((nonce is null) = (granted_at is null)),
  check ((nonce is null) = (expires_at is null)),
  check ((nonce is null) = (worker is null)),
  check ((nonce is null) = (instance is null)),
  check ((state >= 4) = (finished_at is not null)),
  check ((state >= 4) = (cause is not null)),
  check (propagated = 0 or state >= 4),
  check ((backoff = 2) = (backoff_factor is not null)),
  check ((backoff = 2) = (backoff_cap_ms is not null))
) strict;

create index sluicegate_execution_blocked
on sluicegate_execution (partition, id)
where state = 0;

create index sluicegate_execution_claimable
on sluicegate_execution (lane, claim_rank, not_before, partition, id)
where state = 1;

create index sluicegate_execution_by_request
on sluicegate_execution (request)
where state = 2;

create index sluicegate_execution_attempt_over
on sluicegate_execution (attempt_over_at)
where state = 2;

create index sluicegate_execution_deadline
on sluicegate_execution (deadline)
where state < 4 and deadline is not null;

create index sluicegate_execution_unpropagated
on sluicegate_execution (partition, id)
where state >= 4 and propagated = 0;

create table sluicegate_edge_group (
  partition integer not null check (partition between 0 and 65534),
  downstream blob not null check (length(downstream) = 16),
  flow blob not null check (length(flow) = 16),
  policy integer not null check (policy between 1 and 3),
  k integer check (k >= 1),
  on_satisfied integer check (on_satisfied in (1, 2)),
  edges integer not null check (edges >= 0),
  satisfied integer not null check (satisfied >= 0),
  unsatisfied integer not null check (unsatisfied >= 0),
  decision integer not null check (decision between 0 and 2),
  primary key (partition, downstream),
  check ((policy = 3) = (k is not null)),
  check ((policy = 1) = (on_satisfied is null)),
  check (satisfied + unsatisfied <= edges)
) strict, without rowid;

create table sluicegate_edge (
  partition integer not null check (partition between 0 and 65534),
  downstream blob not null check (length(downstream) = 16),
  upstream blob not null check (length(upstream) = 16),
  accepts integer not null check (accepts between 1 and 31),
  resolution integer not null check (resolution between 0 and 2),
  upstream_incarnation integer check (upstream_incarnation >= 0),
  input integer check (input between 0 and 4),
  passes_as text,
  primary key (partition, downstream, upstream),
  check ((resolution = 0) = (upstream_incarnation is null)),
  check (input is null or resolution = 1),
  check (downstream <> upstream)
) strict, without rowid;

create index sluicegate_edge_pending
on sluicegate_edge (partition, upstream, downstream, accepts)
where resolution = 0;

create table sluicegate_attempt (
  partition integer not null check (partition between 0 and 65534),
  execution blob not null check (length(execution) = 16),
  incarnation integer not null check (incarnation >= 0),
  attempt integer not null check (attempt >= 0),
  epoch integer not null,
  nonce integer not null,
  ending integer not null check (ending between 1 and 9),
  reported integer not null check (reported in (1, 2, 3)),
  reported_value integer not null,
  payload_hash integer not null,
  granted_at integer not null,
  ended_at integer not null,
  worker text,
  instance text,
  primary key (partition, execution, incarnation, attempt),
  check (reported <> 1 or reported_value between 0 and 4)
) strict, without rowid;

-- What is said of a lease is part of the key: all zero in a completion event, of which an
-- incarnation has one.
create table sluicegate_event (
  id integer primary key autoincrement,
  partition integer not null check (partition between 0 and 65534),
  execution blob not null check (length(execution) = 16),
  flow blob not null check (length(flow) = 16),
  incarnation integer not null check (incarnation >= 0),
  lease_attempt integer not null check (lease_attempt between 0 and 4294967295),
  lease_change integer not null check (lease_change between 0 and 5),
  lease_expires_at integer not null,
  outcome integer check (outcome between 0 and 4),
  occurred_at integer not null,
  namespace text not null,
  instance_tag text,
  unique (
    partition,
    execution,
    incarnation,
    lease_attempt,
    lease_change,
    lease_expires_at
  ),
  check ((outcome is null) = (lease_change > 0))
) strict;

create table sluicegate_flow_change (
  id integer primary key autoincrement,
  partition integer not null check (partition between 0 and 65534),
  flow blob not null check (length(flow) = 16)
) strict;

create index sluicegate_flow_change_by_flow
on sluicegate_flow_change (partition, flow);

-- One row a flow; `ended_at` stands exactly while the status is a terminal one.
create table sluicegate_flow_summary (
  partition integer not null check (partition between 0 and 65534),
  flow blob not null check (length(flow) = 16),
  blocked integer not null check (blocked >= 0),
  ready integer not null check (ready >= 0),
  active integer not null check (active >= 0),
  suspended integer not null check (suspended >= 0),
  succeeded integer not null check (succeeded >= 0),
  failed integer not null check (failed >= 0),
  cancelled integer not null check (cancelled >= 0),
  expired integer not null check (expired >= 0),
  skipped integer not null check (skipped >= 0),
  status integer not null check (status between 0 and 5),
  ended_at integer,
  last_change integer not null check (last_change >= 0),
  primary key (partition, flow),
  check ((status >= 3) = (ended_at is not null))
) strict, without rowid;

create index sluicegate_flow_summary_ended
on sluicegate_flow_summary (ended_at, partition, flow)
where ended_at is not null;

create table sluicegate_sibling_request (
  partition integer not null check (partition between 0 and 65534),
  downstream blob not null check (length(downstream) = 16),
  flow blob not null check (length(flow) = 16),
  primary key (partition, downstream)
) strict, without rowid;

create table sluicegate_request (
  partition integer not null check (partition between 0 and 65534),
  flow blob not null check (length(flow) = 16),
  request blob not null check (length(request) = 16),
  content_hash blob not null check (length(content_hash) = 32),
  reply blob not null,
  primary key (partition, flow, request)
) strict, without rowid;

create table sluicegate_cancel_backlog (
  partition integer not null check (partition between 0 and 65534),
  flow blob not null check (length(flow) = 16),
  primary key (partition, flow)
) strict, without rowid;

-- A position is the number of its event: one writer inserts in the order in which it commits. So
-- nothing here has to number events, and `last_position` is what a caller has moved it to.
create table sluicegate_stream_head (
  stream integer primary key check (stream >= 0),
  timeline blob not null check (length(timeline) = 16),
  last_position integer not null check (last_position >= 0),
  horizon integer not null check (horizon >= 0)
) strict;

insert into sluicegate_stream_head (stream, timeline, last_position, horizon)
values (0, randomblob(16), 0, 0);

create table sluicegate_subscription (
  name text primary key,
  timeline blob not null check (length(timeline) = 16),
  position integer not null check (position >= 0)
) strict, without rowid;
