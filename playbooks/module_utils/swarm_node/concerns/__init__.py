"""What is managed on a node? One module for each concern; swarm_node/table.py lists them."""
