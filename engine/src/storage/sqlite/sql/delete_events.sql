-- An event has its number as its place from its insert on: none lacks one. The head is locked.
delete from sluicegate_event
where partition = :partition
and execution = :execution
and incarnation = :incarnation
and lease_attempt = :lease_attempt
and lease_change = :lease_change
and lease_expires_at = :lease_expires_at
