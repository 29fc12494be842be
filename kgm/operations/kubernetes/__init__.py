"""Where members of a group run in Kubernetes, as `kubectl` tells it. No client library: what works for the operator at
the shell works for kgm, with the same rights and the same cluster.

pods      members and the pods in which they run
"""
