-- Moves forward only. The head is locked.
update sluicegate.stream_head as h
set
  last_position = $2::int8,
  horizon = $3::int8
where h.stream = $1::int8
and h.last_position <= $2::int8
and h.horizon <= $3::int8
