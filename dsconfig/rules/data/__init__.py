"""Data efficiency: curricula, dynamic batching, random-LTD, and the switches around them."""
