"""Which devices, cores and NUMA nodes of its node does each replica get?"""
