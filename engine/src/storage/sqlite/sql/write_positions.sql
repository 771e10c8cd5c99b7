-- An event has its number as its position from its insert on: none lacks one.
update sluicegate_event
set occurred_at = occurred_at
where id = :position
and id is null
and partition = :partition
and execution = :execution
and incarnation = :incarnation
and lease_attempt = :lease_attempt
and lease_change = :lease_change
and lease_expires_at = :lease_expires_at
