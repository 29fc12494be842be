"""From the bytes of segments to raw records, and from raw records to columns and to JSON.

`raw` reads batches into a table of raw records. `record_tables` turns it into a table for each record type, using
`raw_batch`, which reads all records of a type and version together: a `vector_cursor` is a vector of positions in the
bytes of all of them, and `message_reader` moves it through the tables of the generated messages, so that there is no
second description of Kafka's records (`array_bounds` finds the elements of arrays). It accepts the same input, and
produces the same values, as `kgm.records.record.decode_record`; tests check that. `subscriptions` decodes the bytes
inside members, `transactions` decides which records count, `ndjson` and `json_text` print records as Kafka's converters
do."""
