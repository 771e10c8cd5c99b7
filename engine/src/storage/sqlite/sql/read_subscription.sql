-- Guards nothing: one row by its name.
select
  name,
  timeline,
  position
from sluicegate_subscription
where name = :name
