"""Admin requests, and read-only views of groups.

- `describe_list_delete`: DescribeGroups, ListGroups and DeleteGroups; `consumer_describe`: ConsumerGroupDescribe;
  `streams_describe`: StreamsGroupDescribe
- `view`: groups as plain values, for reports and for the simulation
"""
