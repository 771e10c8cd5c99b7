-- The transaction is the only writer, so the row stays as it is read. Positions are the numbers of
-- events, which only grow.
select
  stream,
  timeline,
  iif(
    last_position > coalesce(
      (select seq from sqlite_sequence where name = 'sluicegate_event'),
      0
    ),
    last_position,
    coalesce((select seq from sqlite_sequence where name = 'sluicegate_event'), 0)
  ) as last_position,
  horizon
from sluicegate_stream_head
where stream = :stream
