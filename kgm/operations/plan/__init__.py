"""Search for the cheapest way to restart members of a group (`kgm plan`). Nothing is changed anywhere.

shapes          the ways to do it: together or in batches, in which order, with which pause
costs           what a plan costs, and which plans no other plan beats
search          try the ways within a budget; what-ifs that need a different configuration
session_advice  the shortest session timeout with which restarts move nothing, and what it costs
"""
