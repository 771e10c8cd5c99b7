-- Guards nothing: one row by its name.
select
  name,
  timeline,
  position
from subscription
where name = :name
