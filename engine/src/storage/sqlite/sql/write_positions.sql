-- An event has its number as its position from its insert on: none lacks one.
update completion_event
set occurred_at = occurred_at
where id = :position
and id is null
and partition = :partition
and execution = :execution
and incarnation = :incarnation
