"""A recorded history of a group, replayed on the real coordinator engine: as it was, or with a change.

`recorded_group` is what is played: processes that started and stopped, and when. `changes` turns it into another one,
as it would have been with group instance ids, another session timeout and so on. `player` plays either in virtual time
and returns the records that the coordinator would have written, so that both can be measured in the same way."""
