"""Plans for new code: the block read strictly, a row for each world size, and the exact optimum beside it."""
