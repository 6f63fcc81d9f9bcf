"""How are CP-SAT and linear solvers called, so that no status is an error?"""
