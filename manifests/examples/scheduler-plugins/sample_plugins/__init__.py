"""Three plugins for Tollbar's scheduler, each in one module."""
