"""Training loops whose workers may join, leave or be killed."""
