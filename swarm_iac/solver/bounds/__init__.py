"""What can no placement exceed? Bounds on GPUs, replicas, shares and moves, by relaxations and by columns."""
