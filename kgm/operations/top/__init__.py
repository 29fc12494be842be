"""All groups of a cluster at a glance, the worst first: `fleet` reads them and goes on reading, `rows` is what it knows
of each and how they are sorted, `reader` does so in a thread of its own while a screen shows them."""
