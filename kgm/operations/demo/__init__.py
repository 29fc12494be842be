"""The demonstration of `kgm demo`: a bounce and a removal, predicted and then done with real consumers.

`demo` runs it on an embedded coordinator and yields its steps as values; `consumers` are its librdkafka consumers."""
