"""Certificates: keeps the authority that signs the webhook's certificates, and the webhook configurations' trust in it.

The authority is in a Secret of our namespace, from which each replica of the webhook signs its own certificate
(`webhooks.tls`).  Looked after are Tollbar's webhook configurations that call a Service of our namespace, except those
into which cert-manager injects an authority; where there are none, no Secret is made.

Hazards.  Down: nothing is renewed; the current authority goes on, for a third of its life at least, and replicas of the
webhook renew their certificates with it.  Doubled: every write has the object's resourceVersion as a precondition, so
that both agree on what one of them wrote.  Behind: a step is taken late.
"""

from collections.abc import Iterable
from functools import partial

from controllers.certificates.reconcile import Deps, reconcile
from tollbar.model.objects import Key
from tollbar.runtime.builder import Builder
from tollbar.runtime.controller import Controller
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import Delta
from tollbar.views import authority, kinds


def setup(manager: Manager) -> Controller[Key]:
    """The one key is the Secret's: it, and any webhook configuration, decide about all of them together."""
    namespace = manager.configuration.system_namespace
    key = Key(namespace, authority.SECRET)
    stores = [
        manager.caches.store(cached)
        for cached in (kinds.secret(authority.SECRET, namespace), kinds.WEBHOOKS, kinds.VALIDATING_WEBHOOKS)
    ]
    secrets, *configurations = stores
    deps = Deps(secrets, configurations, manager.client, manager.configuration, manager.clock, manager.metrics)

    def only(_delta: Delta) -> Iterable[Key]:
        return (key,)

    builder = Builder[Key](manager, "certificates")
    for store in stores:
        builder.watches(store, only, initial=True)
    return builder.complete(partial(reconcile, deps=deps), workers=1)
