"""How does YAML become a Stack, or an error with its line?"""
