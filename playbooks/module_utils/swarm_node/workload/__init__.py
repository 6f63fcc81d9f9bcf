"""What does a workload's unit say beside its command, and how does its life go on?"""
