"""Tollbar's processes beside a control plane, and what else runs beside a test: commands, threads, costs."""
