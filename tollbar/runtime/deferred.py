"""Packages whose __init__ imports all of their modules, of which a process needs few."""

import sys
from importlib.util import find_spec, module_from_spec
from threading import RLock
from typing import Any


def defer(name: str) -> None:
    """Have modules of this package imported without its __init__, as long as they are all that is asked of it.

    The __init__ is run when somebody asks the package for an attribute that it does not have yet, so that nobody can
    tell the difference.  Does nothing for a package that is imported already, or not installed.
    """
    if name in sys.modules or (spec := find_spec(name)) is None or (loader := spec.loader) is None:
        return
    module = module_from_spec(spec)
    lock, begun = RLock(), False

    def complete(attribute: str) -> Any:
        nonlocal begun
        with lock:
            if not begun:
                begun = True
                try:
                    loader.exec_module(module)
                except BaseException:
                    begun = False
                    raise
                if module.__dict__.get("__getattr__") is complete:
                    del module.__dict__["__getattr__"]
            try:
                return module.__dict__[attribute]
            except KeyError:
                raise AttributeError(f"module {name!r} has no attribute {attribute!r}") from None

    module.__dict__["__getattr__"] = complete
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
