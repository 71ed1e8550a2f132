"""The pages of the site that are made from the model, the rules and the command."""
