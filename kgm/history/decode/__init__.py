"""From the bytes of segments to raw records, and from raw records to columns and to JSON.

`raw` reads batches into a table of raw records. `record_tables` makes a table for each record type out of it, by
`raw_batch`, which reads all records of a type and version at once: a `vector_cursor` is a vector of positions in the
bytes of all of them, and `message_reader` moves it through the tables of the generated messages, so that there is no
second description of Kafka's records (`array_bounds` finds the elements of arrays). What it accepts, and what it makes
of it, is what `kgm.records.record.decode_record` does, which tests hold. `subscriptions` decodes the bytes inside
members, `transactions` says which records count, `ndjson` and `json_text` print records as Kafka's converters do."""
