"""What should each node be, and where does it differ from what it is?"""
