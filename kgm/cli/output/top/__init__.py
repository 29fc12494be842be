"""How `kgm top` shows a fleet: `cells` has the texts of a row, `view` what is on the screen and what keys do, and
`screen` draws it on a terminal."""
