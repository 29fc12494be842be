"""What `kgm watch` and `kgm wait` make of one look after another.

Theory of operation. `kgm.client.poller` looks; `story` folds what it sees into events, counts and a verdict, and knows
no clock; `screen` draws the present state at a terminal; `lines` writes events where a program or a pipe reads them.
`conditions` are what `kgm wait` waits for."""
