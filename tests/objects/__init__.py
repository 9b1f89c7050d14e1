"""API objects as plain dicts: how tests write them, and JSON Patch as it is applied to them."""
