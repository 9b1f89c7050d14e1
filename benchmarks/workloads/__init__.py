"""What is measured: a module for each workload, with its text in docs/performance.md."""
