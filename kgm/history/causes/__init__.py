"""Why a group rebalanced, how sure that is, and what says so."""
