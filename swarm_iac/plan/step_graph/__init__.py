"""Which steps lead from what a node is to what it should be, and which waits for which?"""
