"""A long run of the elastic agent under random faults, outside the test suite."""
