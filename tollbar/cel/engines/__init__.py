"""The engines: closures, Python functions with closures as their fallback, and cel-python for comparison."""
