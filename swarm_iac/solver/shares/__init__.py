"""What is each team due when not everything fits? Weighted max-min fairness over the teams, in exact arithmetic."""
