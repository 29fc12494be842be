"""What would have spared a group its rebalances, computed by playing its history again with a change.

`recorded` makes of a history what can be played; `gains` plays it as it was and with a change, and measures both in
the same way; `advise` chooses the changes that the causes of the rebalances suggest.

Importing this package needs neither numpy nor pyarrow; asking for advice does."""

from kgm.operations.history.advice.advise import Advice, AdviceReport, advise

__all__ = ["Advice", "AdviceReport", "advise"]
