"""What a planned bounce would do to a group: the real coordinator and scripted consumers, in virtual time.

How it works
------------
A `GroupSnapshot` becomes a `StartingGroup` (a Stable group: members, what they own, timeouts). Together with a `Plan`
and a seed it makes one *draw*: the group is loaded into a `Coordinator` the way a broker loads it from its log, and its
members become scripted ones, state machines that send real JoinGroups, SyncGroups, Heartbeats and LeaveGroups (or the
heartbeats of KIP-848) and react to every response as librdkafka or the Java client does. In a migration members return
with the other protocol. Rebalances are not computed anywhere: they happen, and are counted in the records that the
coordinator writes.

What cannot be known is drawn: random member ids, phases of heartbeats, how long processes and messages take. If every
draw has the same result and no id is random, the prediction is *exact*. Otherwise it is a typical draw, with ranges
over all of them. If nothing is random, one draw is enough.

The heartbeats of a calm group change nothing but session deadlines, and are left out as long as that makes no
difference; this is why simulating an hour of a thousand members takes seconds.

    bounce         `simulate`: a group and a plan become a prediction
    compare        predictions for several scenarios, side by side
    fleet          the cost of planned work for each group of a fleet
    shape          groups that differ in nothing but names are played only once
    played_bounce  everything that is played for one prediction
    sinks          what plays of Connect workers do to the groups of their sink connectors
    simulation     what is played in each draw
    report         what comes out: the prediction as values, its caveats in words
    play           one draw: the coordinator and scripted clients on a virtual clock
    plan           what goes in: the plan, and the group before it
"""
