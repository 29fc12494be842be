"""The one way in which something is changed: recorded before it is sent, sent until it is answered, and reported by
what is known afterwards. What may be changed, and what shows that it was, is in the rooms above."""
