"""What the coordinator knows about a group: the group types as data, and drafts of them. No request rules.

- `group`: `Group`, the closed union of all group types
- `classic_group`, `classic_state`: a group of the classic protocol with its hard and soft state; the states it can be
  in, and what each request does in each of them
- `consumer_group`, `consumer_member`: a group of the consumer protocol (KIP-848) and its members
- `target_tally`, `member_map_order`: a tally of such a group's targets; its members in the order of Kafka's assignors
- `streams_group`, `streams_member`, `streams_topology`: a streams group (KIP-1071), its members and what they run
- `foreign_group`: share groups, kept as they are in the log
- `event_draft`: what one event changes, before it takes effect; `overlay`: drafts of large tables
"""
