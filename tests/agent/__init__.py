"""Tests of the elastic agent: its state machine, and real processes on loopback as the nodes of a job."""
