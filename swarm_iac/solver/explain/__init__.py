"""Why is something pending, and for whom was something moved?"""
