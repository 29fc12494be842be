"""The one way to change something: record it before sending, send until it is answered, and report what is known
afterwards. The packages above decide what may be changed, and how to see that it was."""
