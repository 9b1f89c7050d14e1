"""The plugins of kube-scheduler's default profile, each in a file of its name; `registry` knows all of them.

The other files are parts of DynamicResources and of DefaultPreemption, and what several plugins share.
"""
