"""What was each GPU used for, and what did that cost? A store of passes over the nodes, and sums of it."""
