"""What does the solver know of the fleet at the moment it decides?"""
