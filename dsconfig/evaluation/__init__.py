"""What a rule sees of one release: the context, the walk over the keys, and the run of all rules."""
