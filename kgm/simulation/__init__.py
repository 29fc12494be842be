"""What a planned bounce would do to a group: the real coordinator and scripted consumers, in virtual time.

How it works
------------
A `GroupSnapshot` becomes an `Origin` (a Stable group: members, what they own, timeouts), and with a `Plan` and a seed
that makes one *draw*. In it the group is loaded into a `Coordinator` the way a broker loads it from its log, and its
members are `Member`s: state machines that send real JoinGroups, SyncGroups, Heartbeats and LeaveGroups, and react to
every answer as librdkafka or the Java client does (`library` says in what they differ); or `EpochMember`s, which speak
the protocol of KIP-848. In a migration the ones come back as the others. Nothing is computed about rebalances anywhere:
they happen, and are counted in the records that the coordinator writes.

What nobody can know is drawn: ids of members to come, phases of heartbeats, how long processes and messages take. When
every draw comes to the same, and no id is random, the prediction is *exact*. Otherwise it is a typical draw, with
ranges. When nothing is left to chance, one draw says it all.

Heartbeats of a calm group change nothing but session deadlines, and are left out as far as that shows nowhere; that is
what makes an hour of a thousand members take seconds.

    plan       the plan as data                     world      clock, wire and coordinator of one draw
    origin     a snapshot as a group to begin with  member     a scripted consumer of the classic protocol
    installed  its records                          epoch_member  one of the protocol of KIP-848
    newcomers  names of members to come             assigning  what a leader does
    script     plays a plan in a world              library    habits and pace of the client libraries
    bounce     draws -> prediction                  ledger     who consumes what, over time
    holdings   the same as bars of a report
    compare    scenarios side by side               report     what comes out; caveats: in words
    standby    who is held back for a plan
"""
