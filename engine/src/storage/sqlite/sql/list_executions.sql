-- Executions of a scope, or of one flow of it, in one of some states.
select
  x.partition,
  x.id,
  x.flow,
  x.state,
  x.cause,
  x.incarnation,
  x.propagated,
  x.has_in,
  x.has_inputs,
  x.has_out,
  x.not_before,
  x.deadline,
  x.attempt,
  x.charged,
  x.give_backs,
  x.resumed_epoch,
  x.resumed_outcome,
  x.progress_attempt,
  x.progress_sequence,
  x.epoch,
  x.nonce,
  x.request,
  x.granted_at,
  x.expires_at,
  x.finished_at,
  x.max_attempts,
  x.backoff,
  x.backoff_delay_ms,
  x.backoff_factor,
  x.backoff_cap_ms,
  x.attempt_timeout_ms,
  x.name,
  x.kind,
  x.lane,
  x.priority,
  x.namespace,
  x.instance_tag,
  x.worker
from sluicegate_execution as x
where x.partition >= :partition_from
and x.partition < :partition_to
and (x.partition, x.id) > (:after_partition, :after_id)
and (x.partition, x.id) <= (:last_partition, :last_id)
and (:flow is null or x.flow = :flow)
and (:namespace is null or x.namespace = :namespace)
and (:instance_tag is null or x.instance_tag = :instance_tag)
and (:states is null or x.state in (select value from json_each(:states)))
order by x.partition, x.id
limit :limit
