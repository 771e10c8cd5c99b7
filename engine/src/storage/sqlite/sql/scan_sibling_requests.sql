-- Every request.
select
  s.partition,
  s.downstream,
  s.flow
from sluicegate_sibling_request as s
cross join sluicegate_flow as f
on f.partition = s.partition
and f.id = s.flow
where s.partition >= :partition_from
and s.partition < :partition_to
and (s.partition, s.downstream) > (:after_partition, :after_id)
and (:namespace is null or f.namespace = :namespace)
and (:instance_tag is null or f.instance_tag = :instance_tag)
order by s.partition, s.downstream
limit :limit
