"""The audit log (`audit_log`) and the proof that it is complete: the hash chain through its lines (`chain`), and a file
with the number and the hash of the last record (`head`)."""
