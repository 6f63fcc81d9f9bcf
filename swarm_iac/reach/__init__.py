"""How is a node reached, and which program of ours answers there?"""
