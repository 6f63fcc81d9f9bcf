"""Which rules does a placement keep? One function each, with its equation in the docstring."""
