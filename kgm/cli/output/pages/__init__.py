"""Reports as self-contained HTML pages to attach to a change ticket: no network, no scripts, light and dark, for screen
and paper.

    page          the skeleton: markup that escapes its input, tables, the style sheet, writing the file
    bars          who owns which partition over time, and which have no consumer, as SVG
    bounce_page   `kgm simulate-bounce --report`
    drain_page    `kgm drain --report`
"""
