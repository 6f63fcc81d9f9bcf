"""What would let a pending workload start, when, and at which price?"""
