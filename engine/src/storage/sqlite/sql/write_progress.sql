-- Changes the row only while it is active at the epoch that it was read with.
update sluicegate_execution
set
  progress_attempt = :attempt,
  progress_sequence = :sequence,
  progress = :value
where partition = :partition
and id = :id
and state = 2
and epoch = :epoch
