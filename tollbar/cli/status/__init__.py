"""`tollbar status`: how Tollbar stands in a cluster, a module for each of its parts.

`command` puts them together and says what is wrong.  `webhook` tells whether the API server can call it, `crds` whether
they are as new as this version, `gates`, `quotas` and `claims` how those stand.
"""
