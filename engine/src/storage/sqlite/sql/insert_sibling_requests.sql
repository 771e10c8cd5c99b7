-- A request that exists stays.
insert into sluicegate_sibling_request (
  partition,
  downstream,
  flow
)
values (
  :partition,
  :downstream,
  :flow
)
on conflict (partition, downstream) do nothing
