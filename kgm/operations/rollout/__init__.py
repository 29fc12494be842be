"""Run a planned restart step by step (`kgm rollout`): run a command for each member, watch the group, and stop when
it deviates from the prediction.

spec         what is run: steps, commands, limits; as it is written into the journal
template     `--exec`: from a text and a member to the words, the environment and the input of a command
commands     one running command: its time limit, its output, its end
pods         members of a group and the pods of Kubernetes in which they run
expectation  what the simulator predicts for a step, and how that compares with what happened
observation  the group poll after poll: what happened in the step, what is missing for it to be over
journal      what was done, written and flushed before and after each act; `resume` reads it back
lock         one rollout of a group at a time
record       the entries of the audit log
removal      the LeaveGroup of a step that removes members
rollout      the loop

A step begins only if the group is known to be as the step before has left it. What cannot be known never counts as
what was predicted."""
