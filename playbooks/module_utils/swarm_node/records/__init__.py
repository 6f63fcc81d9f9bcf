"""What is written down on this node? Whose it is, what is managed here, who did what, and which run may act now."""
