-- Moves forward only, on the same timeline. The cursor is locked.
update sluicegate_subscription
set position = :position
where name = :name
and timeline = :timeline
and position < :position
