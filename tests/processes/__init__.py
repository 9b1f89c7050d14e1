"""Tollbar's processes beside a control plane, what they take, and what else runs beside a test: commands, threads."""
