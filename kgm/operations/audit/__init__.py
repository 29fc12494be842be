"""Whether the audit log is complete: the hash chain through its lines (`chain`), and a file beside it with the number
of the last record and its hash (`head`). The log itself is in `kgm.operations.removal.audit_log`."""
