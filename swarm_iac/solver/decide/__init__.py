"""Which of the ways to a placement is taken, and in what order?"""
