"""Why a group rebalanced, how sure that is, and what in the log says so.

`verdict` has the words (`Cause`, `Confidence`) and what a verdict is; `classic_causes` and `consumer_causes` infer one
from the records of a group of either protocol; `broker_log` reads the reasons that a broker itself has logged, and puts
them in place of what was inferred."""
