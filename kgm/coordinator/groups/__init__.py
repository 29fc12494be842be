"""What the coordinator knows of a group: the types of group as data, and drafts of them. No rules of any request.

- `group`: `Group`, the closed union of all types
- `classic_group`, `classic_state`: a group of the classic protocol, its hard and its soft state; its states, and what
  each request does in each state
- `consumer_group`, `consumer_member`: a group of the consumer protocol (KIP-848) and its members
- `target_tally`, `member_map_order`: what the targets of such a group add up to; its members as assignors order them
- `streams_group`, `streams_member`, `streams_topology`: a streams group (KIP-1071), its members and what they run
- `foreign_group`: share groups, kept as the log has them
- `event_draft`: what one event changes, before it takes effect; `overlay`: drafts of large tables
"""
