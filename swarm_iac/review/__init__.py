"""What would merging a pull request do to the fleet, and who has to agree?"""
