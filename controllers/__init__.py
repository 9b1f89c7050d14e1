"""The controllers process: it watches, decides and writes.  `python -m controllers` runs it."""
