"""Is each reason that is said true? The named cause is taken away, and all is solved again. See `__main__`."""
