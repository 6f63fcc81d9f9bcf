"""What is wrong, or surely not meant, in a stack file that can be read?"""
