"""How do replicas stand evenly in racks or sites: which are compared, how many more fit, who gets the next one?"""
