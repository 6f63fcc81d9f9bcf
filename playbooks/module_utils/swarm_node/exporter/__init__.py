"""What does this node measure of itself between two runs? A sampler that fills files, and a server that answers from them."""
