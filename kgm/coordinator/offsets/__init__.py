"""Committed offsets of every type of group, also those of open transactions: one module for each request.

- `commit`: OffsetCommit; `txn_commit`: TxnOffsetCommit; `fetch`: OffsetFetch; `delete`: OffsetDelete
- `fencing`: which member of a consumer group may commit and fetch, and in which epoch
- `store`: the offsets that the log has, pending ones too, and when they expire
"""
