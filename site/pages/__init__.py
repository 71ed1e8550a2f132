"""Pages of the site that are generated from the model, the rules and the command line."""
