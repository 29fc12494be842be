"""The demonstration `kgm demo`: a bounce and a removal, predicted and then carried out with real consumers.

`demo` runs it on an embedded coordinator and yields its steps as values; `consumers` has its librdkafka consumers."""
