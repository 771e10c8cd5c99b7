-- Flips an edge once: only while it is pending.
update sluicegate_edge
set
  resolution = :resolution,
  upstream_incarnation = :upstream_incarnation,
  input = :input
where partition = :partition
and downstream = :downstream
and upstream = :upstream
and (resolution = 0 or not :guarded)
