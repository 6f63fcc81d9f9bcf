"""What stands beside the lock for a while? Replicas that were granted within the ranges of the stack file.

`layer` is the value, `file` keeps it, `overlay` says which of it is in force beside a placement.
"""
