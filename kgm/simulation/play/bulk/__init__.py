"""Rounds in bulk: a rebalance in which every member does what is expected of it, played in one step for all of them.

Most of a rolling bounce is that: a thousand members notice the rebalance with their next heartbeats, join, sync, and
begin to consume. Nothing that one of them does depends on the others but the end of the join phase and the leader's
SyncGroup. So their times are computed in arrays (numpy), and the coordinator is told what has become of the group. What
is drawn is the same as when each message is an event of its own, and so is what comes of it, to the last bit
(tests/simulation/play/bulk). A rebalance in which anything else happens is played by events.

Where static members restart, there is no rebalance: the others send heartbeats, which are handed in together before the
next event.

coverage which draws may be played in bulk
streams  random numbers and times of many members at once
ledger   who consumes what, as arrays
owners   what a leader assigns, as an array
claims   the same with an assignor that heeds what members claim
deals    what sticky assignors make of claims, as arrays
crowd    calm members as arrays, to and from scripted members
times    when everything happens in one rebalance
rounds   one rebalance of a crowd
chain    with a cooperative assignor, those that follow from it
costs    what it costs, for those who have a budget
stragglers  members that are slow in it, one by one

In a consumer group (KIP-848) there are no rounds. Most members have nothing to do but to learn of each epoch with their
next heartbeat, which is played in arrays. Those whose target an epoch changes are played one by one, without messages.

heartbeats  members as arrays, and what their heartbeats do
bystanders  members that an epoch does not concern
reconcilers  members that it does concern
turns  when the sessions of both began again
"""
