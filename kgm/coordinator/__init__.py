"""Kafka's group coordinator as a pure machine: requests, alarms and records in; records, timers and replies out.

How it works
------------
`Coordinator.handle(request, ticket=, now=)` and `Coordinator.expire(key, now=)` return an `Outcome`: records to append,
timers to set, replies to send, in the order in which they are to be executed. Nothing in this package reads a clock,
draws a random number, opens a socket or writes a log; member ids come from a function that the caller provides.

A request is identified by its *ticket*. A JoinGroup or SyncGroup that has to wait is parked: its outcome has no reply
for its ticket, and a later outcome answers it, together with others. Every ticket is answered exactly once.

Every event works on a *draft* (`EventDraft`), whose cost depends on what the event changes, not on the size of the
group. An outcome without records takes effect at once. An outcome with records takes effect when `replay` has been
called with each of them, or not at all if the caller calls `abort` because they could not be appended. So a failed
append needs no undo, and `fork` can share what has not changed.

Hard and soft state
-------------------
Hard state is what the log says, and what `replay` rebuilds from it on loading; `loaded` then sets the timers. Soft
state dies with the process: parked requests, timers, the rebalance in flight.

- Offsets: hard state only. `replay` and `replay_end_transaction` are the only writers.
- Consumer groups (KIP-848) and streams groups (KIP-1071): `handle` reads them and writes records, and `replay` is the
  only writer of hard state. Soft state: timers, and until when the metadata hash is valid (`refresh`), which a request
  writes at once; of streams groups also what is told of endpoints, who asked for the end of the application, and how
  the topics fit the topology, which takes effect with the event, and is described as of the last record of the shard.
- Classic groups: Kafka writes them to the log at four points: when a group is created, becomes Empty, replaces a static
  member, or gets its assignment from the leader. So the hard state of a group that is Stable or Empty changes in
  `replay` only (when the draft of an outcome takes effect with its last record), and is what the last record says.
  During a rebalance members, leader and generation are ahead of the log, and are lost with the process, as in a broker.
  One exception: a group that became Empty stays Empty if its record could not be appended. The types are
  `ClassicHardState` and `ClassicSoftState` (`groups.classic_group`).

The two protocols share one cycle: rules work on a draft of the event, and `replay` makes it take effect. They differ in
what they draft: a consumer group is described by its records alone; a classic group is drafted itself, because most of
what happens to it is never written.

A consumer group may have members of either protocol, and a group changes its type while it has members. Topics, by
whose ids consumer groups assign, come as an image (`topics`); call `topics_changed` when topics are created, changed or
deleted. Groups that subscribe to them then compute their metadata hash again with the next heartbeat, regular
expressions are resolved again, and offsets of deleted topics are deleted. Configs of one group (Kafka's config resource
GROUP) are set with `configure`. A streams group asks for the internal topics that it needs (`Outcome.new_topics`).
Share groups are kept as the log has them, and block their ids.

Offsets of a transaction (TxnOffsetCommit) are written with their producer (`Outcome.producer`), and are *pending* until
`replay_end_transaction` is called for the marker in the log. They are also replayed with their producer. Whether the
producer may write, with this epoch and to this partition, is checked by the log and a transaction coordinator before a
request gets here, as in Kafka; neither is a part of this package.

Rules that apply to every module here
-------------------------------------
- A refusal is a response with an error code, never an exception. An exception is a bug.
- Order: members are kept in the order in which they joined; a static member that joins again is the last of them. Lists
  of groups, topics and partitions are sorted. Where Kafka's choice depends on the order of a Java hash map (the next
  leader when the leader is gone, a tie in the vote for a protocol), that order is computed.
- Deadlines are absolute. The coordinator has the table of live timers; an alarm that is not in it is ignored.
- The event is the last parameter of a rule, after the group and what the rule is about.

Where it differs from Apache Kafka 4.3.0, on purpose
----------------------------------------------------
`tests/coordinator/lockstep` holds everything else equal in random histories of classic, of consumer and of streams
groups, reply by reply and record by record.

In replies:
- A parked request that Kafka never answers is answered: with REBALANCE_IN_PROGRESS when another request of the same
  member takes its place, and with UNKNOWN_MEMBER_ID for the SyncGroup of a member that leaves. (A client would wait for
  its own timeout.)
- A subscription that claims more topics than it has bytes counts as unreadable, like any other malformed metadata; in
  Kafka it escapes as a server error and leaves the group stuck. (A bug.)
- An OffsetCommit or TxnOffsetCommit that stores nothing, because all its metadata is too long, creates no group; in
  Kafka it leaves a group in memory that is not in the log. (It would be gone after a restart.)
- Members in replies, and groups, topics and partitions, are listed in the order given above; in Kafka in that of hash
  maps, as are tombstones in the log. (The answer is the same each time.)
- A JoinGroup with a member id that is sent to an Empty consumer group is refused, and nothing else happens; in Kafka
  the group is then gone from memory until the next restart. (A bug.)
- An OffsetFetch with a member epoch and no member id is answered with UNKNOWN_MEMBER_ID; Kafka fails with an exception.
  (A bug.)
- Members that were to leave a consumer group, and could not because their records were not appended, keep their timers;
  in Kafka they lose them, and stay until their next request. (A bug.)
- Regular expressions are Google's RE2; Kafka's are RE2/J, which accepts a few forms that RE2 does not, and the other
  way round. The messages that explain an error are worded differently.
- Members of share groups are not known: such a group is Empty without member records, and Stable with them.
- The texts that say what is wrong with the topics of a streams group are worded differently. A topology without its
  record is described as none; Kafka fails with an exception. Topic names are checked by the caller. (As in Kafka.)
- Every operation on a group is authorized. (There is no authorizer.)

In memory, where only the clock or the log shows it:
- Timers of members that are gone are cancelled; Kafka lets them fire without effect. Timers due in the same millisecond
  fire in the order in which they were set; in Kafka in that of its timing wheel. (Each run is the same.)
- A record that cannot be read is skipped on loading, and counted; Kafka fails to load the partition. (`loading` saves
  what can be saved.) Both skip records of unknown types.
- v10 of OffsetCommit and OffsetFetch is answered with UNKNOWN_TOPIC_ID: the caller has to translate topic ids to names,
  and back.
- Timers that Kafka leaves to fire on a group that has changed its type since are cancelled. (There, a member that has
  joined again may be fenced by an old timer.) Kafka also keeps such groups in its index of subscriptions, and checks
  their topics once more than necessary.
- The next leader is Kafka's unless nine member ids share a bucket of its hash map. (Random ids do not.)
- If an operator has planned a group's size or instance ids, for which Apache Kafka has no setting, newcomers wait for
  each other, and spares take the place of members that are removed (`classic.standby`). Without such a setting nothing
  differs.

Quirks of Kafka's that a simulation has to show are kept, and the tests name them: a static member that restarts between
JoinGroup and SyncGroup costs a rebalance when the sync phase ends; a changed subscription of a restarted static member
does not (KAFKA-12759); a member that is refused because of the size of its group is removed without a check whether the
join phase could end now; a member of a consumer group that joins again with another instance id leaves the first id
behind, which then cannot be used; a member of a consumer group that subscribes to no topic may be given partitions that
no member then consumes.

Rooms and modules, from the top; each imports only from those below it (import-linter checks it)
------------------------------------------------------------------------------------------------
- `runtime`: executes outcomes and fires timers
- `engine`: `Coordinator`: events in, outcomes out, when they take effect
- `append_failure`: what takes the place of an event whose records could not be appended · `loading`: a log -> its
  coordinator, quickly
- `dispatch`: which rule handles which request and which alarm
- `state`: groups and offsets of a shard, and the replay of records
- `admin`: describe, list, delete, views · `offsets`: commit, fetch, delete, expire
- `streams`: requests on streams groups · `consumer`: on consumer groups · `classic`: on classic groups
- `groups`: the types of group as data, and drafts of them
- `contract`: what callers see: requests and outcomes, settings, plans, topics, error responses
"""
