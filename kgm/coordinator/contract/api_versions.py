"""From which version on an API behaves differently. (Which fields a version has is the business of `kgm.protocol`.)"""

from typing import Final

# JoinGroup
#: Version 0 has the session timeout only, which then is the rebalance timeout too.
JOIN_HAS_REBALANCE_TIMEOUT: Final = 1
#: A dynamic newcomer is sent away with an id, and has to come back with it (KIP-394).
JOIN_REQUIRES_MEMBER_ID: Final = 4
#: A reply without a protocol name has null for it, and "" before.
JOIN_PROTOCOL_NAME_IS_NULLABLE: Final = 7
#: The response says whether the leader must assign: a restarted static leader need not (KIP-814).
JOIN_MAY_SKIP_ASSIGNMENT: Final = 9

# SyncGroup
#: Protocol type and name have to be given (KIP-559).
SYNC_REQUIRES_PROTOCOL: Final = 5

# LeaveGroup
#: A list of members, each answered on its own (KIP-345).
LEAVE_HAS_MEMBERS: Final = 3

# OffsetCommit and TxnOffsetCommit
#: Members of the consumer protocol can commit, and a group that does not exist is GROUP_ID_NOT_FOUND (KIP-848).
COMMIT_KNOWS_CONSUMER_PROTOCOL: Final = 9
#: Topics are named by id.
COMMIT_HAS_TOPIC_IDS: Final = 10
#: Producers before this version break on the error of a coordinator that is loading (KAFKA-7296).
TXN_COMMIT_KNOWS_LOADING: Final = 2

# OffsetFetch
#: There is an error for the whole response; before, each partition has it.
FETCH_HAS_ERROR: Final = 2
#: Several groups, each with its error.
FETCH_HAS_GROUPS: Final = 8
#: Topics are named by id.
FETCH_HAS_TOPIC_IDS: Final = 10

# DescribeGroups
#: The authorized operations on a group (KIP-430).
DESCRIBE_HAS_OPERATIONS: Final = 3
#: A group that does not exist is GROUP_ID_NOT_FOUND, and only Dead before.
DESCRIBE_HAS_NOT_FOUND: Final = 6

# ConsumerGroupHeartbeat
#: The client makes the member id (KIP-1082).
HEARTBEAT_REQUIRES_MEMBER_ID: Final = 1
