"""All groups of a cluster at a glance, worst first: `fleet` reads them and keeps them up to date, `rows` is what it
knows about each group and how rows are sorted, `reader` runs it in a separate thread while a screen shows the rows."""
