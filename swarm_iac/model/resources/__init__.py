"""Which resources are counted, and what does each row of their table say?"""
