"""Tollbar's own API: its types, their validation, the CustomResourceDefinitions and the webhook configurations.

Pure.  `rules`, `placements`, `gates`, `quotas` and `workloads` have a kind each: its type, from which the
CustomResourceDefinition is generated, and the one validation that webhook, controllers and `tollbar lint` share.
"""
