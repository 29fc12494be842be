"""The versions at which APIs change their behavior. (`kgm.protocol` knows which fields each version has.)"""

from typing import Final

# JoinGroup
#: Version 0 has only the session timeout, which is then also the rebalance timeout.
JOIN_HAS_REBALANCE_TIMEOUT: Final = 1
#: A dynamic newcomer is refused but given an id, and must join again with it (KIP-394).
JOIN_REQUIRES_MEMBER_ID: Final = 4
#: A reply without a protocol name has null there; in earlier versions, "".
JOIN_PROTOCOL_NAME_IS_NULLABLE: Final = 7
#: The response says whether the leader must assign: a restarted static leader need not (KIP-814).
JOIN_MAY_SKIP_ASSIGNMENT: Final = 9

# SyncGroup
#: Protocol type and name are required (KIP-559).
SYNC_REQUIRES_PROTOCOL: Final = 5

# LeaveGroup
#: A list of members, each answered on its own (KIP-345).
LEAVE_HAS_MEMBERS: Final = 3

# OffsetCommit and TxnOffsetCommit
#: Members that use the consumer protocol can commit, and the error for a missing group is GROUP_ID_NOT_FOUND (KIP-848).
COMMIT_KNOWS_CONSUMER_PROTOCOL: Final = 9
#: Topics are named by id.
COMMIT_HAS_TOPIC_IDS: Final = 10
#: Producers before this version break on the error that a loading coordinator returns (KAFKA-7296).
TXN_COMMIT_KNOWS_LOADING: Final = 2

# OffsetFetch
#: The response has an error field; in earlier versions, each partition carries the error.
FETCH_HAS_ERROR: Final = 2
#: Several groups, each with its own error.
FETCH_HAS_GROUPS: Final = 8
#: Topics are named by id.
FETCH_HAS_TOPIC_IDS: Final = 10

# DescribeGroups
#: The authorized operations on a group (KIP-430).
DESCRIBE_HAS_OPERATIONS: Final = 3
#: The error for a missing group is GROUP_ID_NOT_FOUND; in earlier versions, the group is just Dead.
DESCRIBE_HAS_NOT_FOUND: Final = 6

# ConsumerGroupHeartbeat
#: The client makes the member id (KIP-1082).
HEARTBEAT_REQUIRES_MEMBER_ID: Final = 1
