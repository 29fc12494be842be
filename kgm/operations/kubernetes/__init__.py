"""Where members of a group run in Kubernetes, according to `kubectl`. There is no client library: what works for the
operator in the shell works for kgm, with the same permissions and the same cluster.

pods      members and the pods in which they run
"""
