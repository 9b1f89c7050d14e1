"""DeviceTaintRules: taints that an administrator gives to devices, beside those that drivers publish (KEP-5055)."""

from collections.abc import Iterator
from typing import NamedTuple

from tollbar.model.devices import DeviceId
from tollbar.model.objects import Object, key_of, spec


class Scope(NamedTuple):
    """The devices that a rule selects: those with this driver, pool and name, where None stands for any."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class TaintRules:
    """The rules by name.  A change costs its own rule, a question only the rules that select the device.

    A rule whose selector is empty selects all devices; one without a selector selects none, as the API documents it.
    """

    def __init__(self) -> None:
        self._scopes: dict[str, Scope] = {}
        """The scope of each rule that selects devices, by the rule's name."""
        self._taints: dict[Scope, dict[str, Object]] = {}
        """The taints of the rules that have this scope, by the rule's name."""

    def __len__(self) -> int:
        """How many rules select devices."""
        return len(self._scopes)

    def apply(self, obj: Object) -> list[Scope]:
        """Add or replace a DeviceTaintRule; the scopes in which taints have changed.

        ValueError or KeyError for one that the API server would refuse.
        """
        name, taint, scope = key_of(obj).name, spec(obj)["taint"], _scope(obj)
        if not isinstance(taint, dict):
            raise ValueError("the taint is no object")
        before = self._scopes.get(name)
        if before is not None and before == scope and self._taints[before][name] == taint:
            return []
        changed = self.remove(obj)
        if scope is not None:
            self._scopes[name] = scope
            self._taints.setdefault(scope, {})[name] = taint
            if scope not in changed:
                changed.append(scope)
        return changed

    def remove(self, obj: Object) -> list[Scope]:
        """Forget a DeviceTaintRule; the scopes in which taints have changed."""
        name = key_of(obj).name
        scope = self._scopes.pop(name, None)
        if scope is None:
            return []
        del self._taints[scope][name]
        if not self._taints[scope]:
            del self._taints[scope]
        return [scope]

    def taints(self, device: DeviceId) -> list[Object]:
        """The taints that rules give to this device, in the order of the rules' names."""
        if not self._taints:
            return []
        found = {name: taint for scope in _scopes(device) for name, taint in self._taints.get(scope, {}).items()}
        return [found[name] for name in sorted(found)]


def _scope(rule: Object) -> Scope | None:
    selector = spec(rule).get("deviceSelector")
    if selector is None:
        return None
    scope = Scope(*(selector.get(each) for each in Scope._fields))
    if not all(each is None or isinstance(each, str) for each in scope):
        raise ValueError("the selector has a field that is no text")
    return scope


def _scopes(device: DeviceId) -> Iterator[Scope]:
    """Every scope that has this device."""
    for driver in (None, device.driver):
        for pool in (None, device.pool):
            yield Scope(driver, pool, None)
            yield Scope(driver, pool, device.device)
