"""Why a group rebalanced, how certain that is, and the evidence in the log.

`verdict` has the vocabulary (`Cause`, `Confidence`) and defines a verdict; `classic_causes` and `consumer_causes` infer
one from the records of a group, for their respective protocol; `broker_log` reads the reasons that a broker itself
logged, and replaces the inferred ones with them."""
