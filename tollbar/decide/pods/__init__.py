"""Decisions about Pods: at admission, while Tollbar's gate holds them, and late."""
