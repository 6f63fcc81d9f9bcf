"""How is a running fleet repaired with few moves, and how good could any repair be?"""
