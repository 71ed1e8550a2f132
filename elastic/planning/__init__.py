"""Planning of elastic jobs: the strictly validated block, a row for each world size, and the exact optimum."""
