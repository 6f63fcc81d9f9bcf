"""How are decisions of the solver shown and explained?"""
