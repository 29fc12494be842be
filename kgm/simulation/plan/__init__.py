"""What will be done to a group, and the group that it starts with.

bounce_plan      the plan as data: which members stop, how, for how long, and what-ifs
starting_group   the group before the plan, from a snapshot
synthetic_group  a made-up group
new_members      the members that a scale-out adds
client_library   which library's consumer is played, and the usual heartbeat interval
played_settings  the settings of the broker
retention        what a broker does with the group while it is empty
member_ids       random member ids in Kafka's forms
"""
