"""DynamicResources: the plugin that gives the ResourceClaims of a Pod devices of its Node.

`plugin` has its extension points.  `search` is Filter for claims without an allocation, with what `known_nodes` tells
of Nodes and `ownership` of devices; `binding` is Reserve and PreBind, `writes` has their API calls and
`binding_conditions` what they wait for.  `pod_claims` and `extended_resources` say which claims a Pod has.
"""
