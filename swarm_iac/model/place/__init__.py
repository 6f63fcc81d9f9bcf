"""Where may the replicas of a workload be placed?"""
