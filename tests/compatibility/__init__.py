"""Every command that asks a cluster, on a real broker of every version that kgm supports: docs/compatibility.md."""
