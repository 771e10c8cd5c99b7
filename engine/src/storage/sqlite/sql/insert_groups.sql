-- A group of that downstream is an error.
insert into edge_group (
  partition,
  downstream,
  flow,
  policy,
  k,
  on_satisfied,
  edges,
  satisfied,
  unsatisfied,
  decision
)
values (
  :partition,
  :downstream,
  :flow,
  :policy,
  :k,
  :on_satisfied,
  :edges,
  :satisfied,
  :unsatisfied,
  :decision
)
