"""What does a service do beyond its placement?"""
