"""Transactions. All brokers share them; the broker that a transactional id hashes to answers for it."""
