-- Flows that are over, in the order in which they ended.
-- A scalar subquery asks for the flow of each row: a join would sort, or read all flows to filter.
select
  s.partition,
  s.flow,
  s.ended_at
from sluicegate_flow_summary as s indexed by sluicegate_flow_summary_ended
where s.ended_at <= :ended_by
and (s.ended_at, s.partition, s.flow) > (:after_ended_at, :after_partition, :after_id)
and +s.partition >= :partition_from
and +s.partition < :partition_to
and (
  select
    (:namespace is null or f.namespace = :namespace)
    and (:instance_tag is null or f.instance_tag = :instance_tag)
  from sluicegate_flow as f
  where f.partition = s.partition
  and f.id = s.flow
)
order by s.ended_at, s.partition, s.flow
limit :limit
