"""`tollbar status`: the state of Tollbar in a cluster, with a module for each of its parts.

`command` combines them and reports problems.  `webhook` checks whether the API server can call the webhook, `crds`
whether the CRDs are as new as this version; `gates`, `quotas` and `claims` read the state of those.
"""
