"""Processes of Tollbar as benchmarks start them: with a measurement from within, or without what is not measured."""
