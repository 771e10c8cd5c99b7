-- A group of that downstream is an error.
insert into sluicegate_edge_group (
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
