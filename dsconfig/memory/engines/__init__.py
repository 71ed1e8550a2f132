"""What DeepSpeed's engines hold beside the model's own pass, a module for each kind of optimizer wrapper."""
