-- Moves forward only. The head is locked.
update sluicegate_stream_head
set
  last_position = :last_position,
  horizon = :horizon
where stream = :stream
and last_position <= :last_position
and horizon <= :horizon
