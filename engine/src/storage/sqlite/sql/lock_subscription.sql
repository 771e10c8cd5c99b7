-- The transaction is the only writer, so the row stays as it is read.
select
  name,
  timeline,
  position
from sluicegate_subscription
where name = :name
