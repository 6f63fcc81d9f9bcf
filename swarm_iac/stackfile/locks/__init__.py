"""How are placements, proofs and ended jobs kept beside a stack file?"""
