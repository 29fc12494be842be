"""The pictures of the documentation, taken of kgm itself: `python -m tools.screenshots.take`.

`scene` has a group on the embedded coordinator and runs kgm at a terminal; `pictures` makes SVG of what a terminal
received, and PNG of pages as a browser shows them."""
