-- An event has its number as its place from its insert on: none lacks one. The head is locked.
delete from completion_event
where partition = :partition
and execution = :execution
and incarnation = :incarnation
