"""What a recorded `__consumer_offsets` tells about every group.

A log comes in as a table of raw records (`schema.RAW`; `folders` reads them from segments, `in_process` from any small
source). `derive` makes every silver and gold table of it, and what has to be kept to go on (`carry`): `decode` turns
bytes into columns, `reconstruct` the records of classic groups into snapshots, changes and rebalances, `causes` infers
why they happened, and `facts` makes the rows, group by group (`partitions`). `rows` has a class for each table of
`schema`, `row_tables` converts rows to Arrow and back, `tables` makes the two tables that need no rows. `store` opens
the tables of a history and answers which rows are asked for; `verify` says how far a log can be trusted.

There is no Spark here: the same functions run on its workers and without it. numpy and pyarrow come with the extra
`history`, and Spark with the extra `spark`. `rows`, `causes` and `state_json` need neither.
"""
