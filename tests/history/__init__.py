"""What was stored in a cluster, state after state, and judges that read nothing else."""
