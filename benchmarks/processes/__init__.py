"""Tollbar's processes with one reading more, or with one thing less, than the product has."""
