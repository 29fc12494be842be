"""Kafka's group coordinator as a pure machine: requests, alarms and records in; records, timers and replies out.

How it works
------------
`Coordinator.handle(request, ticket=, now=)` and `Coordinator.expire(key, now=)` return an `Outcome`: records to append,
timers to move, replies to send, in the order in which they are to be done. Nothing in this package reads a clock,
draws a random number, opens a socket or writes a log; member ids come from a function that the caller gives.

A request is known by its *ticket*. A JoinGroup or SyncGroup that has to wait is parked: its outcome has no reply for
its ticket, and a later outcome answers it, together with others. Every ticket is answered exactly once.

A group is changed on a *draft* (`Step`), which costs what is changed and not what the group holds. An outcome without
records takes effect at once; an outcome with records takes effect when `replay` has been called with each of them, or
not at all when the caller says `abort` because they could not be appended. So a failed append needs no undoing, and
`fork` shares what it can.

`replay(record)` on a coordinator that is being loaded rebuilds what the log says: groups with their members,
generations and assignments, and offsets. `loaded` then arms the timers. Kafka's classic protocol writes a group at
four points only: created, emptied, static member replaced, leader's SyncGroup. What happens between them is soft
state and dies with the process, as it does in a broker.

Groups of KIP-848 have no soft state but timers: `handle` reads them and says which records there are to be, and
`replay` is the only one that writes to them. Their members may speak either protocol, and a group becomes the other
type while they live. Topics, whose ids these groups go by, come as an image (`topics`), and whoever makes, grows or
deletes one says so with `topics_changed`: groups that subscribe to it then look at their metadata hash with the next
heartbeat, regular expressions are resolved anew, and offsets of topics that are gone are deleted. What is set for one
group (Kafka's config resource GROUP) comes by `configure`. Share and streams groups are kept as the log has them, and
block their ids.

Offsets of a transaction (TxnOffsetCommit) are written with their producer (`Outcome.producer`), and are *pending* until
`replay_end_transaction` says that the marker is in the log. They are to be replayed with their producer, too. That the
producer may write, with this epoch and to this partition, is for the log and a transaction coordinator to say before a
request comes here, as in Kafka; neither is part of this package.

Rules that bind every module here
---------------------------------
- A refusal is a response with an error code, never an exception. An exception is a bug.
- Order: members are kept in the order in which they joined; a static member that comes back is the last of them. What
  is listed (groups, topics, partitions) is sorted. Where Kafka's choice hangs on the order of a Java hash map (the next
  leader after the leader left, a tie in the vote for a protocol) that order is worked out.
- Deadlines are absolute. The table of live timers is the coordinator's; an alarm that is not in it is ignored.

Where it differs from Apache Kafka 4.3.0, on purpose
----------------------------------------------------
`tests/coordinator/lockstep/test_classic_histories.py` holds everything else equal, reply by reply and record by record.

Said to clients:
- A parked request that Kafka never answers is answered: REBALANCE_IN_PROGRESS when a repeat of the same member takes
  its place, UNKNOWN_MEMBER_ID for the SyncGroup of a member that leaves. (A client would wait for its own timeout.)
- A subscription that names more topics than it has bytes counts as unreadable, like any other garbage; in Kafka it
  escapes as a server error and leaves the group stuck. (A bug.)
- An OffsetCommit or TxnOffsetCommit that stores nothing, all its metadata being too long, creates no group; in Kafka it
  leaves one in memory that no log knows of. (It would be gone after a restart.)
- Members in replies, and groups, topics and partitions, are listed in the order said above; in Kafka in that of hash
  maps, and so are tombstones in the log. (The same answer each time.)
- A JoinGroup with a member id that is sent to an Empty consumer group is refused, and that is all; in Kafka the group
  is then gone from memory until the next restart. (A bug.)
- An OffsetFetch with a member epoch and no member id is answered with UNKNOWN_MEMBER_ID; Kafka breaks over it. (A bug.)
- Members that were to leave a consumer group, and could not because their records were not appended, keep their
  timers; in Kafka they lose them, and stay until they are heard of again. (A bug.)
- Regular expressions are Google's RE2; Kafka's are RE2/J, which takes a few forms that RE2 does not, and the other way
  round. Messages that explain an error are in our words.
- Members of share and streams groups are not known: such a group is Empty without member records, else Stable.
- Every right on a group is granted. (There is no authorizer.)

In memory, where it can be noticed by the clock or the log only:
- Timers of members that are gone are cancelled; Kafka lets them fire without effect. Timers due in the same millisecond
  fire in the order in which they were set; in Kafka in that of its timing wheel. (The same run each time.)
- A record that cannot be read is left out on loading and counted; Kafka gives the partition up. (`loading`: what can be
  saved is.) A record type that nobody knows is skipped by both.
- v10 of OffsetCommit and OffsetFetch is answered with UNKNOWN_TOPIC_ID: whoever stands in front turns ids into names
  and back.
- Timers that Kafka leaves to fire on a group that has changed its type since are cancelled. (There a member that has
  joined anew may be fenced by one of before.) Kafka's index of who subscribes to what keeps such groups, too, and looks
  at their topics once more than needed.
- The next leader is Kafka's unless nine member ids fall into one bucket of its hash map. (Random ids do not.)
- Where an operator has planned a group's size or instance ids, which Apache Kafka has no setting for, newcomers wait
  for each other and spares take the place of members that go (`standby`). Without such a setting nothing differs.

Quirks of Kafka's that a simulation has to show are kept; the tests name them (a static member that restarts between
JoinGroup and SyncGroup costs a rebalance when the sync phase ends; a changed subscription of a restarted static member
does not, KAFKA-12759; a member that is refused for the size of its group is removed without a look at whether the join
phase could end now; a member of a consumer group that joins again under another instance id leaves the first one
behind, which nobody can use from then on; who comes to a consumer group and wants no topic may be given partitions that
nobody then reads).

Modules
-------
outcome (the contract) · settings · engine (dispatch, replay, abort) · runtime (executes outcomes, fires timers) ·
loading (a log -> its coordinator) · step (a draft of what one event does) · overlay (drafts of large groups) ·
classic_state (states and legal moves) · classic_group (the data of a group) ·
classic_round (a rebalance: join phase, sync phase, alarms) · classic_join (JoinGroup, static replacement) ·
classic_requests (SyncGroup, Heartbeat, LeaveGroup) · classic_records (group <-> record) · offsets (the store, expiry) ·
planned (what an operator plans for a group) · standby (who is held back for it, and takes over) ·
offset_requests · transactions (TxnOffsetCommit) · admin (describe, list, delete) ·
refusals (the error form of each response) · unappended (when records could not be appended) · view (read-only views) ·
topics (images of the topics, hashes) · consumer_member, consumer_group (data of KIP-848) · consumer_records (group <->
records, replay) · consumer_heartbeat (validation, joining, leaving) · membership (what a member's request changes) ·
target (target assignments) · target_order (how their topics and partitions are gone through) · reconciliation (from
what a member has to what it is to have) · regexes · fencing (members that go) · consumer_timers · consumer_offsets ·
consumer_describe · consumer_classic (the classic protocol in a consumer group) · migration (one type becomes the
other) · foreign_group (share and streams groups).
"""
