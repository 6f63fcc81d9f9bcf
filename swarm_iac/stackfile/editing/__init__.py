"""How is one word of a stack file changed in place?"""
