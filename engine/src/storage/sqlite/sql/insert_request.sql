-- The first effect of a request id stays.
insert into sluicegate_request (
  partition,
  flow,
  request,
  content_hash,
  reply
)
values (
  :partition,
  :flow,
  :request,
  :content_hash,
  :reply
)
on conflict (partition, flow, request) do nothing
