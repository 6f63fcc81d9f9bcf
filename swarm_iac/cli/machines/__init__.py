"""What do commands ask of the machines?"""
