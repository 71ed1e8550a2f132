"""Evaluation of a config for one release: the context of a rule, the walk over the keys, and the run of all rules."""
