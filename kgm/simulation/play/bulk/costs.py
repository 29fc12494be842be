"""What rounds in bulk cost, in requests: how many requests the plain path would handle in the same time
(`kgm.simulation.draws.budget`). Counted by size and not by clock, so that it is the same on every machine.

`bench/rounds.py` shows what draws cost by this count beside the time that they take."""

#: What a round costs whatever its size: some 150 calls of numpy.
_ROUND = 8
#: For so many members, and so many partitions, it costs one request more.
_MEMBERS_PER_REQUEST, _PARTITIONS_PER_REQUEST = 90, 2_200
#: The same where the assignor itself has to be asked, in objects.
_ASKED_MEMBERS_PER_REQUEST, _ASKED_PARTITIONS_PER_REQUEST = 3, 40
#: The same where it is librdkafka's cooperative-sticky, which has one algorithm for all groups.
_LIBRDKAFKA_PARTITIONS_PER_REQUEST = 3
#: The same for arrays that are made of scripted members, and the reverse.
_GATHERED_MEMBERS_PER_REQUEST, _GATHERED_PARTITIONS_PER_REQUEST = 2, 50
#: What it costs to carry out the heartbeats of calm members since the last event, however many there are.
COST_OF_CATCHING_UP = 2
#: A static member that is taken out of the arrays, and put into them when it is back; for so many members it costs
#: one request more.
_RESTART, _RESTART_MEMBERS_PER_REQUEST = 10, 500
#: For so many bystanders the beginning of an epoch costs one request.
_BYSTANDERS_PER_REQUEST = 100
#: So many heartbeats of members that an epoch concerns cost as much as one request, with what they come to.
_RECONCILED_PER_REQUEST = 3


def cost_of_round(members: int, partitions: int, *, is_dealt: bool, asks_librdkafka: bool = False) -> int:
    """A round in bulk. is_dealt: whether the assignor need not be asked. asks_librdkafka: whether it is librdkafka's
    cooperative-sticky if it has to be."""
    cost = _ROUND + members // _MEMBERS_PER_REQUEST + partitions // _PARTITIONS_PER_REQUEST
    if not is_dealt:
        cost += members // _ASKED_MEMBERS_PER_REQUEST + partitions // _ASKED_PARTITIONS_PER_REQUEST
        if asks_librdkafka:
            cost += partitions // _LIBRDKAFKA_PARTITIONS_PER_REQUEST
    return cost


def cost_of_gathering(members: int, partitions: int) -> int:
    """To make arrays of members, and to make members of them again."""
    return 1 + members // _GATHERED_MEMBERS_PER_REQUEST + partitions // _GATHERED_PARTITIONS_PER_REQUEST


def cost_of_restart(members: int) -> int:
    """The restart of one of so many static members."""
    return _RESTART + members // _RESTART_MEMBERS_PER_REQUEST


def cost_of_epoch(members: int) -> int:
    """The beginning of an epoch of a consumer group, for so many bystanders."""
    return members // _BYSTANDERS_PER_REQUEST


def cost_of_reconciling(heartbeats: int) -> int:
    """So many heartbeats of members that an epoch concerns."""
    return heartbeats // _RECONCILED_PER_REQUEST
