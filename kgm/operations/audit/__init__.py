"""The audit log (`audit_log`), and whether it is complete: the hash chain through its lines (`chain`), and a file with
the number of the last record and its hash (`head`)."""
