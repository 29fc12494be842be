"""The client libraries of a fleet: what each sends and does, and which one a member runs on.

- `table`: one entry for each library, as data
- `recognition`: from what a member and the group's leader have sent to a verdict with its evidence
- `subscribed_topics`: what members subscribe to

A client id is chosen by the operator and proves nothing; bytes of the subscription show the member's own library, and
bytes of the assignments that of the leader that wrote them, for all members. What several libraries send alike leaves
several candidates, and no guess."""
