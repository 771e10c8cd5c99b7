-- Changes the row only while it is active at the epoch that it was read with. The row is locked.
update sluicegate.execution as x
set
  progress_attempt = $4::int8,
  progress_sequence = $5::int8,
  progress = $6::bytea
where x.partition = $1::int4
and x.id = $2::uuid
and x.state + 0 = 2
and x.epoch = $3::int8
