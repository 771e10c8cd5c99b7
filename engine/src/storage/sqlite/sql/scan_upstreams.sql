-- Terminal, not propagated, and ended by then.
select
  x.partition,
  x.id
from sluicegate_execution as x indexed by sluicegate_execution_unpropagated
where x.state >= 4
and x.propagated = 0
and x.partition >= :partition_from
and x.partition < :partition_to
and (x.partition, x.id) > (:after_partition, :after_id)
and (:namespace is null or x.namespace = :namespace)
and (:instance_tag is null or x.instance_tag = :instance_tag)
and (:finished_by is null or x.finished_at <= :finished_by)
order by x.partition, x.id
limit :limit
