"""Tollbar's own API: its types, what a valid object is, and the YAML that installs it.

Pure.  The types are the one source of the CustomResourceDefinitions, and `parse_rule` and `parse_gate` are the one
judgement of an object that webhook, controllers and `tollbar lint` share.
"""
