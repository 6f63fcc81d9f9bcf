"""How does a pull request of a forge get its verdict, and how is its merge applied?"""
