"""The broker's assignors of consumer groups (KIP-848)."""

from typing import Final

from kgm.coordinator.contract.settings import CONSUMER_ASSIGNORS

#: What brokers offer to consumer groups; the first is the default.
SERVER_ASSIGNORS: Final = CONSUMER_ASSIGNORS
#: Precedes their names in `kgm.assignors`.
SERVER_PREFIX: Final = "consumer-"
#: The broker's setting with the names of what it offers.
OFFERED: Final = "group.consumer.assignors"
