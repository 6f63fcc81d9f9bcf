"""Does the solver answer well on fleets as people have them, and on the edits that they make? See `__main__`."""
