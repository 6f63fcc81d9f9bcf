"""What is this program asked to do? Each of its verbs walks the list of concerns."""
