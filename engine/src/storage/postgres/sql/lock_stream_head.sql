-- Waits for one row and reads nothing else.
select
  h.stream,
  h.timeline,
  h.last_position,
  h.horizon
from sluicegate.stream_head as h
where h.stream = $1::int8
order by h.stream
for no key update of h
