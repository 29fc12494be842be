"""The APIs: one file for each, named as the API, in these folders. Its first line has the versions that are served, and
it says what is not done.

groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat, StreamsGroupHeartbeat, and groups
described, listed and deleted. offsets: OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit.
transactions: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn. records: Produce, Fetch, ListOffsets.
discovery: Metadata, DescribeCluster, FindCoordinator. admin: topics, configurations, log dirs, reassignments,
elections. connection: ApiVersions, SASL.

table: API key to handler. routing: requests to group coordinators."""
