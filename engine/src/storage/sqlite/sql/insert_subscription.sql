-- A consumer that exists stays as it is.
insert into sluicegate_subscription (
  name,
  timeline,
  position
)
values (
  :name,
  :timeline,
  :position
)
on conflict (name) do nothing
