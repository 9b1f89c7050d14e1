"""What processes see of the cluster: caches with their indexes, the compiled rules, packages gathered from them.

Above the runtime (stores), below the processes: the webhook, the controllers, `explain` and `simulate` gather their
facts here, without awaiting anything.
"""
