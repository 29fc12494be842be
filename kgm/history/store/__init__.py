"""Tables of a history, on disk or in memory, and queries for their rows.

`tables` has what can be queried (`Tables`): a built store, or tables derived in this process; `query` defines which
rows are wanted and reads no more of Parquet files than necessary, `manifest` is a store's description of itself,
`sink_files` determines which of its files count. `final_state` reports what each group was at the end of a history."""
