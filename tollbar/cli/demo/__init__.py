"""`tollbar demo`: what Tollbar does, shown on a control plane of its own in less than a minute.

`command` starts the control plane, the Nodes and Tollbar, and plays the chapters, which are in `tolerations`, `claims`
and `gates`.  `stage` is what every chapter works with, `narrator` how it is told.
"""
