"""Which commands are there, and which options do they take?"""
