"""How does a command speak to a terminal, and to a pipe?"""
