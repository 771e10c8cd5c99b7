-- A flow that is on the list stays.
insert into sluicegate_cancel_backlog (
  partition,
  flow
)
values (
  :partition,
  :flow
)
on conflict (partition, flow) do nothing
