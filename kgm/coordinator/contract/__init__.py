"""What the engine and its callers share. Nothing here knows about groups.

- `outcome`: requests, tickets, timers, replies and outcomes; `error_responses`: the error form of each response
- `settings`: the broker settings and group configs that coordination depends on; `scale_out_plan`: planned group sizes
- `topic_image`: the topics that exist, and the hashes by which consumer groups notice changes
- `api_versions`: the versions at which APIs change their behavior
"""
