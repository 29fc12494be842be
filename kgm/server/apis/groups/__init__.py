"""Groups and their members. The coordinator decides (kgm.coordinator); a broker refuses what it does not coordinate."""
