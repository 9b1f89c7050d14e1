"""Label selectors in a form that can be a key: equal selectors are equal, in whatever order they were written."""

from collections.abc import Mapping
from dataclasses import dataclass

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import AffinityTerm, Shape


@dataclass(frozen=True, slots=True)
class Selector:
    """A LabelSelector.  `requirements` are (key, operator, values), all of which have to hold; None matches nothing."""

    requirements: frozenset[tuple[str, str, frozenset[str]]] | None

    @classmethod
    def of(cls, selector: Object | None) -> "Selector":
        """From the API's LabelSelector, of which None matches nothing and `{}` everything."""
        if selector is None:
            return cls(None)
        by_label = (selector.get("matchLabels") or {}).items()
        return cls(
            frozenset(
                [
                    *((key, "In", frozenset((value,))) for key, value in by_label),
                    *(
                        (each.get("key") or "", each.get("operator") or "", frozenset(each.get("values") or ()))
                        for each in selector.get("matchExpressions") or ()
                    ),
                ]
            )
        )

    @property
    def is_empty(self) -> bool:
        """Whether it has no requirement, and so matches everything."""
        return self.requirements is not None and not self.requirements

    @property
    def demanded(self) -> list[tuple[str, frozenset[str] | None]]:
        """The labels without which it matches nothing: the key, and the values that will do, None for any."""
        return [
            (key, values if operator == "In" else None)
            for key, operator, values in self.requirements or ()
            if operator in {"In", "Exists"}
        ]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """The same answer as `tollbar.model.selectors.matches`."""
        if self.requirements is None:
            return False
        for key, operator, values in self.requirements:
            value = labels.get(key)
            match operator:
                case "In":
                    if value is None or value not in values:
                        return False
                case "NotIn":
                    if not values or value in values:
                        return False
                case "Exists":
                    if values or value is None:
                        return False
                case "DoesNotExist":
                    if values or value is not None:
                        return False
                case _:
                    return False
        return True


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods of these namespaces, or of any if it is None, whose labels match.

    With `below_priority`, only those whose priority is lower than that.
    """

    namespaces: frozenset[str] | None
    selector: Selector
    below_priority: int | None = None

    @classmethod
    def of(cls, term: AffinityTerm) -> "PodSelector":
        """The Pods that a term of a Pod is about.

        A namespaceSelector other than `{}` has to be resolved to names before: here it selects no namespace.
        """
        everywhere = Selector.of(term.namespace_selector).is_empty
        return cls(None if everywhere else term.namespaces, Selector.of(term.selector))

    @classmethod
    def of_lower_priority(cls, priority: int) -> "PodSelector":
        """All Pods of a priority that is lower than this one."""
        return cls(None, Selector.of({}), priority)

    def matches(self, shape: Shape) -> bool:
        if self.namespaces is not None and shape.namespace not in self.namespaces:
            return False
        if self.below_priority is not None and shape.priority >= self.below_priority:
            return False
        return self.selector.matches(shape.labels)
