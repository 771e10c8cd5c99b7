-- The only verb that names a clock: microseconds since the Unix epoch, now and not at the begin.
select (extract(epoch from clock_timestamp()) * 1000000)::int8 as now
