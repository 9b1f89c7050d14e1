"""The plugins of kube-scheduler's default profile, each in a file of its name; `registry` knows all of them.

The other files have what several plugins share, and `evictions` the deletions of DefaultPreemption.
"""
