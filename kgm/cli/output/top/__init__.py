"""How `kgm top` shows a fleet: `cells` are the texts of a row, `view` is what is on the screen and what keys do, and
`screen` puts it on a terminal."""
