"""Forecast what taking members away does to each group of a cluster (`kgm drain`). Nothing is changed anywhere.

target    which members are taken away: those on a host or in a rack, or with a client id or an identity
fleet     the groups of a cluster, read in bulk, or of a snapshot
forecast  each group that loses members, simulated and ranked; gates
"""
