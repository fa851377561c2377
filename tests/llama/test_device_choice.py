"""What the graph itself finds in its rows: the same as is found on the host, and logits only where they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from foretoken.backend import Span
from foretoken.config import ContextConfig
from foretoken.errors import IntegrityError
from foretoken.llama import contenders as few
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
def test_same_as_on_the_host(tiny_model: TinyModel, kind: str, unified: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any mixture of sequences, widths and of how much of whose rows the device keeps, in one batch after the other."""
    monkeypatch.setattr(few, "_BLOCK", 64)
    model, rng = tiny_model(kind), random.Random(3)
    with _opened(model, unified) as host, _opened(model, unified) as device:
        held = dict.fromkeys(range(3), 0)
        for _ in range(40):
            seq = rng.randrange(3)
            if rng.random() < 0.5:
                if seq in device._choice:
                    device._choice.detach(seq)
                else:
                    device._choice.attach(seq, rng.choice((0, 9, 20)))
            spans = _spans(rng, held, model.vocabulary.n_tokens)
            host.decode(spans)
            device.decode(spans)
            for span in spans:
                for row in span.outputs:
                    _same(host, device, row, device._choice.kept(span.seq) if span.seq in device._choice else None)


def _same(host: Context, device: Context, row: int, n_kept: int | None) -> None:
    logits = host.logits(row)
    assert device._rows.best(row) == int(logits.argmax())
    if n_kept is None:
        assert (device.logits(row) == logits).all()
        return
    with pytest.raises(IntegrityError, match="not brought to the host"):
        device.logits(row)
    for k in (1, 2, 9, 20):
        if k <= n_kept:
            tokens, found = device._rows.contenders(row, k)
            assert (tokens == np.flatnonzero(logits >= np.sort(logits)[-k])).all()
            assert (found == logits[tokens]).all()
        else:
            with pytest.raises(IntegrityError, match="are wanted"):
                device._rows.contenders(row, k)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.8, seed=3, top_k=8),
        SamplingParams(temperature=1.3, seed=4, top_k=1),
        SamplingParams(temperature=1.3, seed=4, top_k=8, xtc_probability=0.5, typical_p=0.7),
        SamplingParams(temperature=0),
    ],
)
def test_the_same_tokens_are_chosen(
    tiny_model: TinyModel, params: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(few, "_BLOCK", 64)
    monkeypatch.setattr(few, "_COLUMNS", 64)
    model, rng = tiny_model("qwen35"), random.Random(5)
    tokens = [rng.randrange(model.vocabulary.n_tokens) for _ in range(60)]
    chosen = []
    for patience in (0.1, 10**9):
        monkeypatch.setattr(device_choice, "_PATIENCE", patience)
        with _opened(model, True) as context:
            for start in (0, 30):
                context.expect(1, params.n_best)
                context.decode([Span(1, start, tokens[start : start + 30], 30, 0)])
            assert (1 in context._choice) == (patience == 0.1)
            sampler = context.sampler(params, [])
            chosen.append([sampler.sample(row) for row in range(30)])
            sampler.close()
    assert chosen[0] == chosen[1]


def test_a_sequence_changes_when_it_has_lost_as_much_as_that_takes(
    tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_choice, "_PATIENCE", 40 * device_choice._GREEDY_MS)
    with _opened(tiny_model("qwen35"), True) as context:

        def answered(n_best: int | None, n_rows: int, seq: int = 1) -> bool:
            """Whether the device chose for a request of so many rows."""
            context.expect(seq, n_best)
            start = context.length(seq)
            context.decode([Span(seq, start, [5] * n_rows, n_rows, 0)])
            return seq in context._choice

        assert not any(answered(1, 1) for _ in range(50)), "plain steps lose nothing"
        assert [answered(1, 16) for _ in range(5)] == [False, False, False, True, True]
        assert not answered(None, 16)
        assert [answered(1, 16) for _ in range(6)] == [False] * 5 + [True], "twice the patience"
        assert not answered(None, 16), "and so on"
        mixed = [answered(n_best, 16) for n_best in [1, 1, None] * 9]
        assert mixed.count(True) < 5, "mixed requests change ever less often"


def test_all_sequences_change_at_once(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few, "_COLUMNS", 64)
    monkeypatch.setattr(device_choice, "_PATIENCE", 40 * device_choice._SAMPLED_MS)
    with _opened(tiny_model("qwen35"), True) as context:
        for seq, n_best in enumerate((6, None, 1)):
            context.expect(seq, n_best)
            context.decode([Span(seq, 0, [5] * 30, 30, 0)])
        assert not any(seq in context._choice for seq in range(3))
        context.decode([Span(0, 30, [5] * 30, 30, 0)])
        context.expect(1, None)
        assert [seq in context._choice for seq in range(3)] == [True, False, True]
        assert (context._choice.kept(0), context._choice.kept(2)) == (14, 0)


def test_who_keeps_more_also_serves_who_wants_less(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few, "_COLUMNS", 64)
    monkeypatch.setattr(device_choice, "_PATIENCE", 16 * device_choice._GREEDY_MS)
    with _opened(tiny_model("qwen35"), True) as context:

        def kept_for(n_best: int | None, n_rows: int = 16) -> int | None:
            context.expect(0, n_best)
            context.decode([Span(0, context.length(0), [5] * n_rows, n_rows, 0)])
            return context._choice.kept(0) if 0 in context._choice else None

        assert [kept_for(6), kept_for(6)] == [None, 14]
        assert [kept_for(2), kept_for(6), kept_for(1), kept_for(6)] == [14] * 4, "no change without need"
        assert [kept_for(7), kept_for(7)] == [None, 15], "what it kept does not do"
        assert [kept_for(1, 64), kept_for(1)] == [15, 0], "nor, at length, for those who want much less"
        assert kept_for(40) is None, "too many of so few tokens"
        assert [kept_for(6, 1) for _ in range(30)][-1] == 14, "one row at a time, too"


def test_a_cpu_keeps_its_logits(tiny_model: TinyModel) -> None:
    with Context(tiny_model("qwen35"), ContextConfig(n_ctx=512, n_threads=1)) as context:
        for _ in range(300):
            context.expect(0, 1)
            context.decode([Span(0, 0, [5] * 32, 32, 0)])
            context.remove(0, 0)
        assert 0 not in context._choice
        context.decode([Span(0, 0, [5, 6], 1, 0)])
        assert context.sampler(_GREEDY, []).sample(1) == int(context.logits(1).argmax())
