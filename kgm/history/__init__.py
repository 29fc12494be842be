"""What a recorded `__consumer_offsets` says of every group: records in columns, and the fold over a group's records.

Theory of operation. A log comes in as a table of raw records (`schema.RAW`: bytes of key and value, where they stood,
and whose transaction they were in; `raw` makes it from batches). `columns` decodes it, all records of a type and
version at once: a `cursor` is a vector of positions in the bytes of all of them, and the tables of the generated
messages drive it field by field, so that there is no second description of Kafka's records. What it accepts, and what
it makes of it, is what `kgm.records.decode_record` does, which tests hold. What it does not accept stays in
`Decoded.bad`, with its bytes and a reason. `blobs` does the same for subscriptions and assignments inside.

`membership` folds the records of one group in the order of their offsets into snapshots, changes and rebalances, in
plain Python, and claims nothing of what compaction has taken away. `timelines` does it for every group of a table, and
makes tables of it again.

No Spark in here: the same functions run on its workers and without it. numpy and pyarrow come with the extra `spark`,
and are imported by nothing else in kgm; `membership` does without both.
"""
