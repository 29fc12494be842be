"""Tables of a history, on disk or in memory, and the questions that are put to them.

`tables` has what answers (`Tables`): a built store, or tables that were derived in this process; `query` says which
rows are asked for and reads no more of Parquet files than it must, `manifest` what a store says of itself, `sink_files`
which of its files count. `final_state` tells what each group was at the end of a history."""
