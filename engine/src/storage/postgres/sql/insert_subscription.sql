-- A consumer that exists stays as it is.
insert into sluicegate.subscription (
  name,
  timeline,
  position
)
values (
  $1::text,
  $2::uuid,
  $3::int8
)
on conflict (name) do nothing
