"""What the requests of one owner share, and nobody else sees."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Owners(Generic[T]):
    """One value per owner, kept for the `limit` owners seen last."""

    def __init__(self, make: Callable[[], T], limit: int) -> None:
        if limit < 1:
            raise ValueError("at least one owner must be kept")
        self._make = make
        self._limit = limit
        self._values: OrderedDict[str, T] = OrderedDict()

    def of(self, owner: str | None) -> T:
        """The owner's value; somebody unknown gets a new one that nobody else will see."""
        if owner is None:
            return self._make()
        value = self._values.pop(owner, None)
        if value is None:
            value = self._make()
        self._values[owner] = value
        if len(self._values) > self._limit:
            self._values.popitem(last=False)
        return value

    def __iter__(self) -> Iterator[T]:
        return iter(self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, owner: str) -> bool:
        return owner in self._values
