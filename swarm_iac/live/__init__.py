"""What stands beside the lock for a while? Replicas that were granted within the ranges of the stack file.

`layer` is the value, `file` keeps it in a clone, `shared` is what Pulumi's state has of it, for all clones, `checkpoint` reads
that, and `overlay` says which of it is in force beside a placement.
"""
