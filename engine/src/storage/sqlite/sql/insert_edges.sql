-- An edge between the two is an error.
insert into sluicegate_edge (
  partition,
  downstream,
  upstream,
  accepts,
  resolution,
  upstream_incarnation,
  input,
  passes_as
)
values (
  :partition,
  :downstream,
  :upstream,
  :accepts,
  :resolution,
  :upstream_incarnation,
  :input,
  :passes_as
)
