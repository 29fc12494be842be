"""Stories on the wire: the same raw requests to `kgm serve` and to a real Kafka broker, and what both answer.

A story is a few lines of text in `stories/*.txt`: who sends which request, and below each line what Apache Kafka 4.3.0
answered. Nobody writes the answers by hand:

    python -m tests.server.wire.record          # plays every story on real brokers and rewrites the answers
    python -m tests.server.wire.record leave    # one theme only

The tests play every story on both servers and compare both with the text. What the lines mean:

    === A static member that restarts takes its old place      a story; every run of it has groups of its own
    broker slow                                                (optional) a broker of another configuration, see brokers.py
    versions JoinGroup 5-9                                     (optional) a limit on the versions of an API
    a join instance=one                                        actor `a` sends a JoinGroup and gets its reply
        v9: NONE generation_id=1 ...                           the reply in version 9,
        v5-8: NONE generation_id=1 ...                         and in the others
    b join ...                                                 a request that has to wait; the story continues
    b hears                                                    its reply comes now, because of the line before
    b waits                                                    its reply has not come yet
    b listens                                                  its reply, or `(silence)` after 2 s
        kgm: REBALANCE_IN_PROGRESS                             what kgm answers instead, on purpose
    # why this is so                                           a comment

Each story is played once for each *step down* of versions: first all requests in their highest version, then all one
version lower, down to the lowest that has the fields that the story uses (requests.py); where a request says `v=N` it
is always sent in that version. So every version of every API is sent. A reply is shown with all its fields but
throttle_time_ms, in Kafka's words, leaving out those that have Kafka's default; a label in front of a reply gives the
versions of the request (or, where these do not decide, the steps down) that got it.

What cannot be equal on two servers is normalized by rule (replies.py): member ids, group ids, topic ids, cluster id,
addresses. Lists whose order Kafka takes from a hash map are sorted: members, and in answers about several groups or
topics these.
"""
