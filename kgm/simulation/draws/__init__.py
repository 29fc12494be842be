"""How draws are played: as many as a budget allows, in this process or in several. The result is the same either way.

budget    what a draw costs, in simulated requests
task      which draw is played
shuffle   what differs from draw to draw before anything happens
executor  plays tasks and hands their draws over in order
worker    a process that plays for the executor of another one
"""
