-- The transaction is the only writer, so the row stays as it is read.
select
  name,
  timeline,
  position
from subscription
where name = :name
