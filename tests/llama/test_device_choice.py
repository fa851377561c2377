"""Best tokens that the graph itself finds: the same as those found on the host, and logits only where they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from foretoken.backend import Span
from foretoken.config import ContextConfig
from foretoken.errors import IntegrityError
from foretoken.llama import device_choice
from foretoken.llama.context import Context
from foretoken.llama.model import Model
from foretoken.types import SamplingParams
from tests.conftest import TinyModel

_GREEDY = SamplingParams(temperature=0)


@contextmanager
def _opened(model: Model, early: bool) -> Iterator[Context]:
    config = ContextConfig(n_ctx=512, n_sequences=3, n_threads=1, n_outputs=128, unified=early)
    with Context(model, config) as context:
        # What a context on a GPU says of itself; the graph is the same on a CPU.
        context.returns_early = True
        yield context


def _spans(rng: random.Random, held: dict[int, int], n_vocab: int) -> list[Span]:
    spans, row = [], 0
    for seq in sorted(rng.sample(sorted(held), rng.randint(1, len(held)))):
        n = rng.choice((1, 1, 2, 5, 17))
        tokens = [rng.randrange(n_vocab) for _ in range(n)]
        spans.append(Span(seq, held[seq], tokens, rng.randint(1, n), row))
        held[seq] += n
        row += n
    return spans


@pytest.mark.parametrize("kind", ["qwen35", "llama"])
@pytest.mark.parametrize("unified", [True, False])
def test_same_best_as_on_the_host(tiny_model: TinyModel, kind: str, unified: bool) -> None:
    """Any mixture of sequences, widths and of who lets the device choose, in one batch after the other."""
    model, rng = tiny_model(kind), random.Random(3)
    with _opened(model, unified) as host, _opened(model, unified) as device:
        held = dict.fromkeys(range(3), 0)
        for _ in range(40):
            seq = rng.randrange(3)
            if rng.random() < 0.3:
                (device._choice.detach if seq in device._choice else device._choice.attach)(seq)
            spans = _spans(rng, held, model.vocabulary.n_tokens)
            host.decode(spans)
            device.decode(spans)
            for span in spans:
                for row in span.outputs:
                    assert device._rows.best(row) == int(host.logits(row).argmax())
                    if span.seq in device._choice:
                        with pytest.raises(IntegrityError, match="not brought to the host"):
                            device.logits(row)
                    else:
                        assert (device.logits(row) == host.logits(row)).all()


def test_a_sequence_changes_when_it_has_lost_as_much_as_that_takes(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_choice, "_PATIENCE", 40)
    with _opened(tiny_model("qwen35"), True) as context:

        def answered(best_only: bool, n_rows: int, seq: int = 1) -> bool:
            """Whether the device chose for a request of so many rows."""
            context.expect(seq, best_only)
            start = context.length(seq)
            context.decode([Span(seq, start, [5] * n_rows, n_rows, 0)])
            return seq in context._choice

        assert not any(answered(True, 1) for _ in range(50)), "plain steps lose nothing"
        assert [answered(True, 16) for _ in range(5)] == [False, False, False, True, True]
        assert not answered(False, 16)
        assert [answered(True, 16) for _ in range(6)] == [False] * 5 + [True], "twice the patience"
        assert not answered(False, 16), "and so on"
        assert not any(answered(best_only, 16) for best_only in [True, True, False] * 3), "mixed requests never change"
        assert 0 not in context._choice


def test_a_cpu_keeps_its_logits(tiny_model: TinyModel) -> None:
    with Context(tiny_model("qwen35"), ContextConfig(n_ctx=512, n_threads=1)) as context:
        for _ in range(300):
            context.expect(0, True)
            context.decode([Span(0, 0, [5] * 32, 32, 0)])
            context.remove(0, 0)
        assert 0 not in context._choice
        context.decode([Span(0, 0, [5, 6], 1, 0)])
        assert context.sampler(_GREEDY, []).sample(1) == int(context.logits(1).argmax())
