-- Guards nothing: how many events an execution has.
select
  count(*) as events
from sluicegate_event
where partition = :partition
and execution = :execution
order by events
