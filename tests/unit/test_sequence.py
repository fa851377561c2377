"""Where two texts part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from foretoken.engine.sequence import Sequence, n_shared
from foretoken.ids import ids_of
from foretoken.ids import n_shared as n_shared_ids

tokens = st.lists(st.integers(0, 2), max_size=20)


@given(same=st.lists(st.integers(0, 9), max_size=400), one=tokens, other=tokens, limit=st.integers(0, 500))
def test_the_shared_beginning(same: list[int], one: list[int], other: list[int], limit: int) -> None:
    one, other = same + one, same + other
    wanted = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    wanted = min(len(one), len(other)) if wanted is None else wanted
    assert n_shared(one, other, limit) == min(wanted, limit)
    assert n_shared_ids(ids_of(one), ids_of(other)) == wanted
    assert Sequence(one, len(one)).shared_prefix(other) == wanted
