"""Kafka's group coordinator as a pure machine: requests, alarms and records in; records, timers and replies out.

How it works
------------
`Coordinator.handle(request, ticket=, now=)` and `Coordinator.expire(key, now=)` return an `Outcome`: records to append,
timers to set, replies to send, in the order in which the caller must execute them. Nothing in this package reads a
clock, draws a random number, opens a socket or writes a log; the caller provides a function that makes member ids.

A request is identified by its *ticket*. A JoinGroup or SyncGroup that has to wait is parked: its outcome has no reply
for its ticket, and a later outcome answers it, together with others. Every ticket is answered exactly once.

Every event works on a *draft* (`EventDraft`), whose cost depends on what the event changes, not on the size of the
group. An outcome without records takes effect immediately. An outcome with records takes effect once `replay` has been
called with each of them, or not at all if the caller calls `abort` because they could not be appended. So a failed
append needs no undo, and `fork` can share what has not changed.

Hard and soft state
-------------------
Hard state is what the log says, and what `replay` rebuilds from it on loading; `loaded` then sets the timers. Soft
state is lost with the process: parked requests, timers, the rebalance in flight.

- Offsets: hard state only. `replay` and `replay_end_transaction` are the only writers.
- Consumer groups (KIP-848) and streams groups (KIP-1071): `handle` reads them and writes records, and `replay` is the
  only writer of hard state. Soft state: timers, and how long the metadata hash is valid (`refresh`), which a request
  writes immediately. Streams groups have more soft state: the endpoints that are reported, which member asked to shut
  down the application, and how the topics fit the topology. The last takes effect with the event, and is described as
  of the last record of the shard.
- Classic groups: Kafka writes them to the log at four points: when a group is created, becomes Empty, replaces a static
  member, or gets its assignment from the leader. So the hard state of a Stable or Empty group changes only in `replay`
  (when the draft of an outcome takes effect with its last record), and matches the last record. During a rebalance,
  members, leader and generation are ahead of the log, and are lost with the process, as in a broker. One exception: a
  group that became Empty stays Empty if its record could not be appended. The types are `ClassicHardState` and
  `ClassicSoftState` (`groups.classic_group`).

The two protocols share one cycle: rules work on a draft of the event, and `replay` makes it take effect. They differ in
what they draft: for a consumer group, only its records; for a classic group, the group itself, because most of what
happens to it is never written.

A consumer group can have members of either protocol, and a group can change its type while it has members. Consumer
groups assign partitions by topic id. Topics come as an image (`topics`); call `topics_changed` when topics are created,
changed or deleted. Groups that subscribe to them then recompute their metadata hash on the next heartbeat, regular
expressions are resolved again, and offsets of deleted topics are deleted. Configs of one group (Kafka's config resource
GROUP) are set with `configure`. A streams group asks for the internal topics that it needs (`Outcome.new_topics`).
Share groups are kept as they are in the log, and their ids cannot be used by other groups.

Offsets of a transaction (TxnOffsetCommit) are written with their producer (`Outcome.producer`), and are *pending* until
`replay_end_transaction` is called for the marker in the log. They are also replayed with their producer. Whether the
producer may write, with this epoch and to this partition, is checked by the log and a transaction coordinator before a
request gets here, as in Kafka; neither is part of this package.

Rules that apply to every module here
-------------------------------------
- A refusal is a response with an error code, never an exception. An exception is a bug.
- Order: members are kept in the order in which they joined; a static member that rejoins moves to the end. Lists of
  groups, topics and partitions are sorted. Where Kafka's choice depends on the order of a Java hash map (the next
  leader when the leader is gone, a tie in the vote for a protocol), that order is computed.
- Deadlines are absolute. The coordinator keeps the table of live timers; an alarm that is not in it is ignored.
- The event is the last parameter of a rule, after the group and the subject of the rule.

Where it differs from Apache Kafka 4.3.0, on purpose
----------------------------------------------------
`tests/coordinator/lockstep` checks that everything else is equal in random histories of classic, consumer and streams
groups, reply by reply and record by record.

In replies:
- Parked requests that Kafka never answers are answered: with REBALANCE_IN_PROGRESS when another request from the same
  member takes their place, and with UNKNOWN_MEMBER_ID for the SyncGroup of a member that leaves. (A client would wait
  until its own timeout.)
- A subscription that claims more topics than it has bytes counts as unreadable, like any other malformed metadata; in
  Kafka it escapes as a server error and leaves the group stuck. (A bug.)
- An OffsetCommit or TxnOffsetCommit that stores nothing, because all its metadata is too long, creates no group; in
  Kafka it leaves a group in memory that is not in the log. (It would be gone after a restart.)
- Members in replies, and groups, topics and partitions, are listed in the order given above; Kafka lists them, and
  writes tombstones to the log, in hash map order. (The answer is the same each time.)
- A JoinGroup with a member id, sent to an Empty consumer group, is refused, and nothing else happens; in Kafka the
  group is then gone from memory until the next restart. (A bug.)
- An OffsetFetch with a member epoch and no member id is answered with UNKNOWN_MEMBER_ID; Kafka fails with an exception.
  (A bug.)
- Members that should have left a consumer group, but could not because their records were not appended, keep their
  timers; in Kafka they lose them, and stay until their next request. (A bug.)
- Regular expressions are Google's RE2; Kafka's are RE2/J, which accepts a few forms that RE2 does not, and the other
  way round. The messages that explain an error are worded differently.
- Members of share groups are not tracked: such a group is Empty without member records, and Stable with them.
- Messages about problems with the topics of a streams group are worded differently. If its record is missing, the
  topology is described as none; Kafka fails with an exception. The caller checks topic names. (As in Kafka.)
- Every operation on a group is authorized. (There is no authorizer.)

In memory, visible only through the clock or the log:
- Timers of members that are gone are cancelled; Kafka lets them fire without effect. Timers due in the same millisecond
  fire in the order in which they were set; in Kafka, in the order of its timing wheel. (Each run is the same.)
- A record that cannot be read is skipped on loading, and counted; Kafka fails to load the partition. (`loading`
  recovers as much as it can.) Both skip records of unknown types.
- v10 of OffsetCommit and OffsetFetch is answered with UNKNOWN_TOPIC_ID: the caller must translate topic ids to names
  and back.
- Timers are cancelled when a group changes its type; Kafka lets them fire. (There, an old timer can fence a member that
  has rejoined.) Kafka also keeps such groups in its index of subscriptions, and checks their topics once more than
  necessary.
- The next leader is the same as Kafka's unless nine member ids share a bucket of its hash map. (Random ids do not.)
- If an operator has planned a group's size or instance ids, for which Apache Kafka has no setting, newcomers wait for
  each other, and spares take the place of members that are removed (`classic.standby`). Without such a setting nothing
  differs.

Kafka quirks that a simulation must show are kept, and the tests name them: a static member that restarts between
JoinGroup and SyncGroup costs a rebalance when the sync phase ends; a changed subscription of a restarted static member
does not (KAFKA-12759); a member that is refused because its group is too large is removed without checking whether the
join phase could end now; a member of a consumer group that rejoins with another instance id leaves the first id behind,
which then cannot be used; a member of a consumer group that subscribes to no topic can be assigned partitions, which no
member then consumes.

Rooms and modules, from the top; each imports only from those below it (checked by import-linter)
------------------------------------------------------------------------------------------------
- `runtime`: executes outcomes and fires timers
- `engine`: `Coordinator`: events in, outcomes out, and when outcomes take effect
- `append_failure`: what replaces an event whose records could not be appended · `loading`: rebuilds a coordinator from
  its log, quickly
- `dispatch`: which rule handles which request and which alarm
- `state`: groups and offsets of a shard, and the replay of records
- `admin`: describe, list, delete, views · `offsets`: commit, fetch, delete, expire
- `streams`, `consumer`, `classic`: requests on groups of that type
- `groups`: the group types as data, and drafts of them
- `contract`: what callers see: requests and outcomes, settings, plans, topics, error responses
"""
