"""What a recorded `__consumer_offsets` shows about every group.

A log comes in as a table of raw records (`schema.RAW`; `folders` reads them from segments, `in_process` from any small
source). `derive` builds every silver and gold table from it, plus the state needed to continue later (`carry`):
`decode` turns bytes into columns, `reconstruct` turns the records of classic groups into snapshots, changes and
rebalances, `causes` infers why they happened, and `facts` builds the rows, group by group (`partitions`). `rows` has a
class for each table of `schema`, `row_tables` converts rows to Arrow and back, `tables` builds the two tables that need
no rows. `store` opens the tables of a history and answers queries for their rows; `verify` reports how far a log can be
trusted.

There is no Spark here: the same functions run on Spark's workers and without Spark. numpy and pyarrow come with the
extra `history`, and Spark with the extra `spark`. `rows`, `causes` and `state_json` need neither.
"""
