-- Waits for one row and reads nothing else.
select
  s.name,
  s.timeline,
  s.position
from sluicegate.subscription as s
where s.name = $1::text
order by s.name
for no key update of s
