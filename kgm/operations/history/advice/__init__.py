"""What would have avoided a group's rebalances, computed by replaying its history with a change.

`recorded` turns a history into something that can be replayed; `gains` replays it as it was and with a change, and
measures both in the same way; `advise` chooses the changes that the causes of the rebalances suggest.

Importing this package needs neither numpy nor pyarrow; asking for advice does."""

from kgm.operations.history.advice.advise import Advice, AdviceReport, advise

__all__ = ["Advice", "AdviceReport", "advise"]
