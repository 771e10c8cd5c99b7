-- Not terminal, and its attempt or its deadline is over.
select
  partition,
  id
from (
  select
    x.partition,
    x.id
  from sluicegate_execution as x indexed by sluicegate_execution_attempt_over
  where x.state = 2
  and x.attempt_over_at <= :now
  and x.partition >= :partition_from
  and x.partition < :partition_to
  and (x.partition, x.id) > (:after_partition, :after_id)
  and (:namespace is null or x.namespace = :namespace)
  and (:instance_tag is null or x.instance_tag = :instance_tag)
  union
  select
    x.partition,
    x.id
  from sluicegate_execution as x indexed by sluicegate_execution_deadline
  where x.state < 4
  and x.deadline is not null
  and x.deadline <= :now
  and x.partition >= :partition_from
  and x.partition < :partition_to
  and (x.partition, x.id) > (:after_partition, :after_id)
  and (:namespace is null or x.namespace = :namespace)
  and (:instance_tag is null or x.instance_tag = :instance_tag)
)
order by partition, id
limit :limit
