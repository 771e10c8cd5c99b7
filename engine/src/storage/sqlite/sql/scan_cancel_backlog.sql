-- Every flow on the list, closed or not.
select
  b.partition,
  b.flow
from sluicegate_cancel_backlog as b
cross join sluicegate_flow as f
on f.partition = b.partition
and f.id = b.flow
where b.partition >= :partition_from
and b.partition < :partition_to
and (b.partition, b.flow) > (:after_partition, :after_id)
and (:namespace is null or f.namespace = :namespace)
and (:instance_tag is null or f.instance_tag = :instance_tag)
order by b.partition, b.flow
limit :limit
