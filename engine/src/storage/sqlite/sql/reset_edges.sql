-- Guards nothing but the key: an edge waits again, whatever it was.
update sluicegate_edge
set
  resolution = 0,
  upstream_incarnation = null,
  input = null
where partition = :partition
and downstream = :downstream
and upstream = :upstream
