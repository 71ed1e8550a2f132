"""Plan elastic jobs: validate the block strictly, list the rows per world size, and find the exact optimum."""
