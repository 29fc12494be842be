"""A plan played on a virtual clock, against the real coordinator.

plan_runner       plays a plan once: which members stop and start when, until the group is stable
draw              its outcome
world             coordinator and network of one draw
scripted_member   a scripted consumer; `classic_member` and `consumer_member` for the two protocols
leader            what the leader of a classic group does
client_profiles   how the client libraries behave; `timing`: how long things take
seed_records      the group before the plan: its processes, and the records that the coordinator loads
ownership_ledger  who consumes what; `holdings`: the same, as bars of a report
held_newcomers    new members that are held back for a planned scale-out
virtual_clock     scheduled calls
"""
