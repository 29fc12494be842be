"""Groups as metrics: `collector` polls the cluster periodically, `families` turns what it saw into OpenMetrics."""
