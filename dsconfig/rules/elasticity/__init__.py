"""Elastic batch sizes: the `elasticity` section and the world sizes that it supports."""
