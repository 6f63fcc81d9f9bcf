"""What a placement is measured by, and how that is said."""
