"""Model families: their modules, in the order of `named_parameters()`, and their forward passes."""
