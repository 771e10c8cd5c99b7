-- Guards nothing: the number of a change is its key.
insert into sluicegate_flow_change (
  partition,
  flow
)
values (
  :partition,
  :flow
)
