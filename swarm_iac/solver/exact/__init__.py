"""Which placement is best, by one model of the whole fleet?"""
