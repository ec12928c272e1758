"""Training loops with workers that join, leave and are killed."""
