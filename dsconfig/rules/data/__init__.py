"""Data efficiency: curricula, dynamic batching, random-LTD, and their switches."""
