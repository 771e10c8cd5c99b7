-- Decided, and its downstream still blocked.
-- Walks the blocked executions: they are few beside the groups that were ever decided.
select
  x.partition,
  x.id
from sluicegate_execution as x indexed by sluicegate_execution_blocked
cross join sluicegate_edge_group as g
on g.partition = x.partition
and g.downstream = x.id
where x.state = 0
and x.partition >= :partition_from
and x.partition < :partition_to
and (x.partition, x.id) > (:after_partition, :after_id)
and (:namespace is null or x.namespace = :namespace)
and (:instance_tag is null or x.instance_tag = :instance_tag)
and g.decision <> 0
order by x.partition, x.id
limit :limit
