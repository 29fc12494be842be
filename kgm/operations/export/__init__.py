"""Groups as metrics: `collector` asks the cluster again and again, `families` makes OpenMetrics of what it saw."""
