"""Run a planned restart step by step (`kgm rollout`): run a command for each member, watch the group, and stop if it
deviates from the prediction.

session        plan a rollout, run it under its lock, and resume it
spec           what to run: steps, commands, limits; stored in the journal
template       `--exec`: from a text and a member to the words, the environment and the input of a command
targets        the members of a step as their commands see them
commands       one running command: its time limit, its output, its end
command_batch  the commands of one step
expectation    what the simulator predicts for a step, and how that compares with what happened
observation    polls the group: what happened in the step, and what is missing until it is over
journal        what was done, written and flushed before and after each action; `--resume` reads it back
progress       how far a rollout has come, as its journal shows
events         what a rollout reports while it runs
lock           one rollout of a group at a time
record         the entries of the audit log
removal        the LeaveGroup of a step that removes members
tools          the cluster, the journal, the audit log, and what else a rollout works with
rollout        the loop

A step begins only if the group is known to be as the previous step left it. What cannot be known never counts as
predicted."""
