"""The settings of a Kafka client, from everywhere they can be set: what the command line and the Python API both need.

`loading` merges the sources and records where each value came from, `profiles` reads kgm's own config.toml,
`properties` a Java client.properties, `config_providers` the placeholders in one (KIP-297). Which settings exist, and
which of them are secrets, is in `kgm.model.client_settings`; what they mean for a connection is in
`kgm.client.security`."""
