"""Text is shown in whole characters and never past a stop string."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from foretoken.engine.text import TextStream

LETTERS = st.text("abcé🙂", max_size=30)
STOPS = st.lists(st.text("abcé🙂", min_size=1, max_size=4), max_size=3).map(tuple)


def stream(data: bytes, cuts: list[int], stops: tuple[str, ...]) -> tuple[list[str], TextStream]:
    text = TextStream(stops)
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    shown = []
    for start, end in itertools.pairwise(edges):
        shown.append(text.push(data[start:end]))
        if text.stopped_by is not None:
            break
    return [*shown, text.finish()], text


@given(LETTERS, st.lists(st.integers(0, 1000), max_size=20), STOPS)
def test_what_is_shown_is_the_text_up_to_the_first_stop(whole: str, cuts: list[int], stops: tuple[str, ...]) -> None:
    shown, text = stream(whole.encode(), cuts, stops)
    out = "".join(shown)
    assert whole.startswith(out)
    assert not any(stop in out for stop in stops)
    if text.stopped_by is None:
        assert out == whole
    else:
        assert whole[len(out) :].startswith(text.stopped_by)


@given(st.binary(max_size=40), st.lists(st.integers(0, 1000), max_size=20))
def test_bytes_that_are_no_text_become_replacement_characters(data: bytes, cuts: list[int]) -> None:
    shown, _ = stream(data, cuts, ())
    assert "".join(shown) == data.decode("utf-8", "replace")


def test_a_character_is_not_shown_in_halves() -> None:
    text = TextStream()
    assert [text.push(bytes([byte])) for byte in "🙂".encode()] == ["", "", "", "🙂"]


def test_the_beginning_of_a_stop_string_is_held_back_and_released_if_it_goes_on_otherwise() -> None:
    text = TextStream(("</end>",))
    assert text.push(b"one </") == "one "
    assert text.push(b"em>") == "</em>"
    assert text.push(b"two </en") == "two "
    assert text.push(b"d> three") == ""
    assert text.finish() == ""
    assert text.stopped_by == "</end>"
