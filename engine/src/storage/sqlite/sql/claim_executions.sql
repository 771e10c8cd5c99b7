-- Grants ready rows whose time has come and whose flow lets them start.
-- SQLite has one writer: no row is locked by another, so nothing is passed over. The walk is one
-- per lane, each in the order of its index and cut at the limit; the merge cuts again. `+` keeps a
-- range of partitions from making it a walk over all lanes.
update sluicegate_execution
set
  state = 2,
  attempt = attempt + 1,
  charged = charged + :charge,
  epoch = iif(epoch = 9223372036854775807, -9223372036854775807 - 1, epoch + 1),
  nonce = :nonce,
  request = :request,
  granted_at = :now,
  expires_at = :expires_at,
  worker = :worker,
  instance = :instance
where rowid in (
  select x.rowid
  from json_each(:lanes) as wanted
  cross join sluicegate_execution as x
  where x.rowid in (
    select c.rowid
    from sluicegate_execution as c indexed by sluicegate_execution_claimable
    where c.state = 1
    and c.lane = wanted.value
    and c.not_before <= :now
    and +c.partition >= :partition_from
    and +c.partition < :partition_to
    and (:namespace is null or c.namespace = :namespace)
    and (:kinds is null or c.kind in (select value from json_each(:kinds)))
    and (:except is null or c.id not in (select unhex(value) from json_each(:except)))
    and (
      select f.closing is null or f.closing = 1
      from sluicegate_flow as f
      where f.partition = c.partition
      and f.id = c.flow
    )
    order by c.claim_rank, c.not_before, c.partition, c.id
    limit :limit
  )
  order by x.claim_rank, x.not_before, x.partition, x.id
  limit :limit
)
returning
  partition,
  id,
  flow,
  state,
  cause,
  incarnation,
  propagated,
  has_in,
  has_inputs,
  has_out,
  not_before,
  deadline,
  attempt,
  charged,
  give_backs,
  resumed_epoch,
  resumed_outcome,
  progress_attempt,
  progress_sequence,
  epoch,
  nonce,
  request,
  granted_at,
  expires_at,
  finished_at,
  max_attempts,
  backoff,
  backoff_delay_ms,
  backoff_factor,
  backoff_cap_ms,
  attempt_timeout_ms,
  name,
  kind,
  lane,
  priority,
  namespace,
  instance_tag,
  payload
