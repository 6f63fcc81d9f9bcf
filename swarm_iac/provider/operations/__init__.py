"""What does the provider do for each call of the engine?"""
