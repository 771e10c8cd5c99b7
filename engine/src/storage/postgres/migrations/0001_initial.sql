-- The tables of schema version 1.
-- States, causes and policies are the codes of `storage/codes.rs`; instants are microseconds since
-- the Unix epoch; an epoch, a nonce and a hash are 64 bits in a signed integer. Every primary key
-- but that of a submission leads with the partition, so that the tables can be distributed by it.
-- No foreign keys: their locks would close cycles. One full index a table serves look-ups by key;
-- the others are partial. Rows that change have room for their next version on their page.

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
  partition int4 not null check (partition between 0 and 65534),
  flow uuid not null,
  content_hash bytea not null check (length(content_hash) = 32),
  request uuid not null,
  primary key (namespace, key)
);

create table sluicegate.flow (
  partition int4 not null check (partition between 0 and 65534),
  id uuid not null,
  namespace text not null,
  instance_tag text,
  closing int2 check (closing between 1 and 3),
  revision int8 not null check (revision >= 0),
  content_hash bytea not null check (length(content_hash) = 32),
  request uuid not null,
  created_at int8 not null,
  primary key (partition, id)
) with (fillfactor = 80);

create table sluicegate.execution (
  partition int4 not null check (partition between 0 and 65534),
  id uuid not null,
  flow uuid not null,
  state int2 not null check (state between 0 and 8),
  cause int2 check (cause between 1 and 7),
  incarnation int8 not null check (incarnation between 0 and 4294967295),
  propagated bool not null,
  has_in bool not null,
  has_out bool not null,
  not_before int8 not null,
  deadline int8,
  attempt int8 not null check (attempt between 0 and 4294967295),
  charged int8 not null check (charged between 0 and 4294967295),
  give_backs int8 not null check (give_backs between 0 and 4294967295),
  epoch int8 not null,
  nonce int8,
  request uuid,
  granted_at int8,
  expires_at int8,
  finished_at int8,
  max_attempts int8 not null check (max_attempts between 0 and 4294967295),
  backoff int2 not null check (backoff in (1, 2)),
  backoff_delay_ms int8 not null check (backoff_delay_ms between 0 and 4294967295),
  backoff_factor int8 check (backoff_factor between 0 and 4294967295),
  backoff_cap_ms int8 check (backoff_cap_ms between 0 and 4294967295),
  attempt_timeout_ms int8 check (attempt_timeout_ms between 0 and 4294967295),
  worker text,
  instance text,
  name text not null,
  kind text not null,
  lane text not null,
  priority int4 not null,
  namespace text not null,
  instance_tag text,
  -- `rows::claim_rank`, with its saturation.
  claim_rank int8 not null generated always as (
    case
      when priority >= 0
        then greatest(not_before, -9223372036854775807 - 1 + priority::int8 * 60000000)
      else least(not_before, 9223372036854775807 + priority::int8 * 60000000)
    end - priority::int8 * 60000000
  ) stored,
  -- `Execution::attempt_over_at`, with its saturation.
  attempt_over_at int8 generated always as (
    case
      when attempt_timeout_ms is null or expires_at is null then expires_at
      else least(
        expires_at,
        least(granted_at, 9223372036854775807 - attempt_timeout_ms * 1000)
          + attempt_timeout_ms * 1000
      )
    end
  ) stored,
  payload bytea not null,
  result bytea,
  primary key (partition, id),
  check ((state = 2) = (nonce is not null)),
  check ((nonce is null) = (request is null)),
  check ((nonce is null) = (granted_at is null)),
  check ((nonce is null) = (expires_at is null)),
  check ((nonce is null) = (worker is null)),
  check ((nonce is null) = (instance is null)),
  check ((state >= 4) = (finished_at is not null)),
  check ((state >= 4) = (cause is not null)),
  check (not propagated or state >= 4),
  check ((backoff = 2) = (backoff_factor is not null)),
  check ((backoff = 2) = (backoff_cap_ms is not null))
) with (fillfactor = 50);

create index execution_by_flow
on sluicegate.execution (partition, flow, id);

create index execution_blocked
on sluicegate.execution (partition, id)
where state = 0;

create index execution_claimable
on sluicegate.execution (lane, claim_rank, not_before, partition, id)
where state = 1;

create index execution_by_request
on sluicegate.execution (request)
where state = 2;

create index execution_attempt_over
on sluicegate.execution (attempt_over_at)
where state = 2;

create index execution_deadline
on sluicegate.execution (deadline)
where state < 4 and deadline is not null;

create index execution_unpropagated
on sluicegate.execution (partition, id)
where state >= 4 and not propagated;

create table sluicegate.edge_group (
  partition int4 not null check (partition between 0 and 65534),
  downstream uuid not null,
  flow uuid not null,
  policy int2 not null check (policy between 1 and 3),
  k int8 check (k between 1 and 4294967295),
  on_satisfied int2 check (on_satisfied in (1, 2)),
  edges int8 not null check (edges between 0 and 4294967295),
  satisfied int8 not null check (satisfied >= 0),
  unsatisfied int8 not null check (unsatisfied >= 0),
  decision int2 not null check (decision between 0 and 2),
  primary key (partition, downstream),
  check ((policy = 3) = (k is not null)),
  check ((policy = 1) = (on_satisfied is null)),
  check (satisfied + unsatisfied <= edges)
) with (fillfactor = 50);

create index edge_group_by_flow
on sluicegate.edge_group (partition, flow, downstream);

create table sluicegate.edge (
  partition int4 not null check (partition between 0 and 65534),
  downstream uuid not null,
  upstream uuid not null,
  accepts int2 not null check (accepts between 1 and 31),
  resolution int2 not null check (resolution between 0 and 2),
  upstream_incarnation int8 check (upstream_incarnation between 0 and 4294967295),
  passes_as text,
  primary key (partition, downstream, upstream),
  check ((resolution = 0) = (upstream_incarnation is null)),
  check (downstream <> upstream)
) with (fillfactor = 55);

create index edge_pending
on sluicegate.edge (partition, upstream, downstream)
where resolution = 0;

create table sluicegate.attempt (
  partition int4 not null check (partition between 0 and 65534),
  execution uuid not null,
  incarnation int8 not null check (incarnation between 0 and 4294967295),
  attempt int8 not null check (attempt between 0 and 4294967295),
  epoch int8 not null,
  nonce int8 not null,
  ending int2 not null check (ending between 1 and 6),
  reported int2 not null check (reported in (1, 2)),
  reported_value int8 not null,
  payload_hash int8 not null,
  granted_at int8 not null,
  ended_at int8 not null,
  worker text,
  instance text,
  primary key (partition, execution, incarnation, attempt),
  check (reported = 2 or reported_value between 0 and 4)
);

create table sluicegate.completion_event (
  id int8 generated always as identity,
  partition int4 not null check (partition between 0 and 65534),
  execution uuid not null,
  flow uuid not null,
  incarnation int8 not null check (incarnation between 0 and 4294967295),
  outcome int2 not null check (outcome between 0 and 4),
  occurred_at int8 not null,
  namespace text not null,
  instance_tag text,
  primary key (partition, execution, incarnation)
);

create index completion_event_by_id
on sluicegate.completion_event (id);

create table sluicegate.flow_change (
  id int8 generated always as identity,
  partition int4 not null check (partition between 0 and 65534),
  flow uuid not null,
  primary key (partition, id)
);

create table sluicegate.sibling_request (
  partition int4 not null check (partition between 0 and 65534),
  downstream uuid not null,
  flow uuid not null,
  primary key (partition, downstream)
);
