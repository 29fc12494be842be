"""Committed offsets of every type of group, including offsets in open transactions: one module for each request.

- `commit`: OffsetCommit; `txn_commit`: TxnOffsetCommit; `fetch`: OffsetFetch; `delete`: OffsetDelete
- `fencing`: which members of a consumer or streams group may commit and fetch, and in which epoch
- `store`: the offsets in the log, including pending ones, and when they expire
"""
