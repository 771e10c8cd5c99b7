-- Flows with change rows.
-- A scalar subquery asks for the flow of each row: a join would sort, or read all flows to filter.
select
  c.partition,
  c.flow
from sluicegate_flow_change as c indexed by sluicegate_flow_change_by_flow
where c.partition >= :partition_from
and c.partition < :partition_to
and (c.partition, c.flow) > (:after_partition, :after_id)
and (
  select
    (:namespace is null or f.namespace = :namespace)
    and (:instance_tag is null or f.instance_tag = :instance_tag)
  from sluicegate_flow as f
  where f.partition = c.partition
  and f.id = c.flow
)
group by c.partition, c.flow
order by c.partition, c.flow
limit :limit
