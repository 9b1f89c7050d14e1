"""Tollbar's own API: its types, their validation, the CustomResourceDefinitions and the webhook configurations.

Pure.  The CustomResourceDefinitions are generated from the types.  Webhook, controllers and `tollbar lint` share one
validation: `parse_rule`, `parse_gate` and `parse_workload_claim`.
"""
