"""How is a large fleet filled? Column generation: a column is what one node of a shape could carry."""
