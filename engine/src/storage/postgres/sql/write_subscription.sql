-- Moves forward only, on the same timeline. The cursor is locked.
update sluicegate.subscription as s
set position = $3::int8
where s.name = $1::text
and s.timeline = $2::uuid
and s.position < $3::int8
