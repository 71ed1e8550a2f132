"""Plan elastic jobs: validate the block strictly, compute a row per world size, and find the exact optimum."""
