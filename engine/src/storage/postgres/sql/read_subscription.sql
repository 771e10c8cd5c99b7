-- Guards nothing: one row by its name.
select
  s.name,
  s.timeline,
  s.position
from sluicegate.subscription as s
where s.name = $1::text
order by s.name
