"""Typed configs: built in Python, read from files, put together, judged, and handed to who takes dicts."""
