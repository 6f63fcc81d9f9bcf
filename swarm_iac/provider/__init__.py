"""How does Pulumi see the fleet? One resource with many rows, served by a plugin that never loads the solver."""
