"""What follows the load between two commits? Replicas within their ranges, as long as every guarantee stays placed.

`reading` is what was measured, `tracking` how many replicas that asks for, `granting` where they go, `certificate` how it is
known that they can be taken away, `tick` one decision for a fleet.
"""
