"""Reports as one self-contained HTML page, to attach to a change ticket: no network, no script, light and dark, for the
screen and for paper.

    page          the skeleton: markup that escapes what it is given, tables, the style sheet, writing the file
    bars          who owns what over time, and what has no consumer, as SVG
    bounce_page   `kgm simulate-bounce --report`
    drain_page    `kgm drain --report`
"""
