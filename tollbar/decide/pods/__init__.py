"""Decisions about Pods: at admission, while our gate holds them, and late."""
