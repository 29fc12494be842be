"""Transactions. Every broker has all of them; the one that a transactional id hashes to answers for it."""
