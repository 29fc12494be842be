"""The APIs, in these folders: one file each, named after the API. Its docstring starts with the versions served, and
says what is not implemented.

groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat, StreamsGroupHeartbeat, and describing,
listing and deleting groups. offsets: OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit. transactions:
InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn. records: Produce, Fetch, ListOffsets. discovery: Metadata,
DescribeCluster, FindCoordinator. admin: topics, configurations, log dirs, reassignments, elections.
connection: ApiVersions, SASL.

table: API key to handler. routing: requests to group coordinators."""
