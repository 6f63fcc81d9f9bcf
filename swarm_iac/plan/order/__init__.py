"""In which order may steps be taken, so that no law is broken?"""
