"""The loop over the toy backend: any drafter, any memory, any company, the same tokens."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from msgspec.structs import replace

from foretoken.backend import Span
from foretoken.engine.loop import Loop
from foretoken.memory import KINDS, Memory, Ring, Trim
from foretoken.types import Request, SamplingParams, Token
from tests import toy
from tests.engine.harness import ADVERSARIES, Adversary, Answer, ToyPieces, alone, finish, make_loop, submit

GREEDY = SamplingParams(temperature=0)
KIND_IDS = list(KINDS)


def backend_for(kind: type[Memory], n_slots: int, **settings: object) -> toy.ToyBackend:
    return toy.ToyBackend(n_slots, recurrent=kind is not Trim, n_rollback=8 if kind is Ring else 0, **settings)


def oracle_for(kind: type[Memory]):
    def oracle(tokens: Sequence[Token], n: int) -> list[Token]:
        chain = list(tokens)
        for _ in range(n):
            chain.append(int(toy.expected(chain, recurrent=kind is not Trim).argmax()))
        return chain[len(tokens) :]

    return oracle


def loop_for(kind: type[Memory], n_slots: int, adversary: str | None, seed: int = 0, **settings: object) -> Loop:
    backend = backend_for(kind, n_slots, **settings)
    drafters = [Adversary(adversary, seed, toy.N_VOCAB, oracle_for(kind))] if adversary else []
    return make_loop(backend, kind(backend), ToyPieces(), drafters)


def random_request(rng: random.Random) -> Request:
    greedy = rng.random() < 0.5
    return Request(
        [rng.randrange(toy.N_VOCAB) for _ in range(rng.randint(1, 40))],
        GREEDY if greedy else SamplingParams(temperature=1, seed=rng.randrange(1000)),
        max_tokens=rng.randint(0, 40),
        stop=("xy", "qq") if rng.random() < 0.3 else (),
        n=rng.choice((1, 1, 1, 2, 3)),
        ignore_eos=rng.random() < 0.5,
        logprobs=2 if rng.random() < 0.2 else None,
    )


def check_same(answers: list[Answer], plain: list[Answer], cancelled: bool) -> None:
    for answer, wanted in zip(answers, plain, strict=True):
        if cancelled and answer.reason == "cancelled":
            assert answer.tokens == wanted.tokens[: len(answer.tokens)]
        else:
            assert (answer.tokens, answer.text, answer.reason) == (wanted.tokens, wanted.text, wanted.reason)


def test_batches_are_laid_out_in_the_order_of_the_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """libllama computes sequences with cells of their own together only as far as their numbers rise."""
    rng = random.Random(5)
    loop = loop_for(KINDS["checkpoint"], 4, "half-right", n_batch=24)
    decode, several = loop.backend.decode, []

    def checked(spans: Sequence[Span]) -> None:
        seqs = [span.seq for span in spans]
        assert seqs == sorted(set(seqs))
        assert [span.first_row for span in spans] == [0, *accumulate(len(span.tokens) for span in spans[:-1])]
        several.append(len(seqs) > 2 and any(len(span.tokens) > 1 for span in spans))
        decode(spans)

    monkeypatch.setattr(loop.backend, "decode", checked)
    for _ in range(30):
        submit(loop, random_request(rng))
        for _ in range(rng.randint(0, 5)):
            loop.step()
    finish(loop)
    assert sum(several) > 20


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KIND_IDS)
def test_same_tokens_as_plain_decoding(kind: type[Memory], adversary: str) -> None:
    """Random arrivals, cancels and company; every answer equals the plain one, alone in a fresh loop."""
    for seed in range(40):
        rng = random.Random(seed)
        n_slots = 1 if kind is Ring else rng.randint(1, 4)
        loop = loop_for(kind, n_slots, adversary, seed, returns_early=rng.random() < 0.5)
        running: list[tuple[Request, list, list[Answer], bool]] = []
        for _ in range(rng.randint(2, 7)):
            request = random_request(rng)
            sessions, answers = submit(loop, request)
            cancelled = rng.random() < 0.2
            for _ in range(rng.randint(0, 6)):
                loop.step()
            if cancelled:
                for session in sessions:
                    session.cancelled = True
            running.append((request, sessions, answers, cancelled))
        finish(loop)
        for request, _, answers, cancelled in running:
            check_same(answers, alone(lambda: loop_for(kind, 1, None), request), cancelled)
        assert all(slot.free for slot in loop.scheduler.slots)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KIND_IDS)
def test_statistics_add_up(kind: type[Memory]) -> None:
    loop = loop_for(kind, 1, "half-right")
    _, (answer,) = submit(loop, Request([1, 2, 3], GREEDY, max_tokens=200, ignore_eos=True))
    finish(loop)
    usage = answer.finish.usage
    statistics = loop.speculator.statistics["half-right"]
    assert statistics.offered == statistics.verified + statistics.unverified
    assert statistics.verified == statistics.accepted + statistics.rejected == usage.drafted
    assert statistics.accepted == usage.accepted > 20
    # Every step that judges something emits one token of the model's own beside the accepted ones.
    assert usage.completion_tokens == 200
    assert usage.completion_tokens <= usage.accepted + usage.steps
    assert sum(statistics.accepted_at) == statistics.accepted
    assert (usage.replayed > 0) == (kind not in (Trim, Ring))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KIND_IDS)
def test_a_perfect_drafter_saves_steps(kind: type[Memory]) -> None:
    request = Request([5, 6, 7], GREEDY, max_tokens=100, ignore_eos=True)
    loop = loop_for(kind, 1, "right")
    submit(loop, request)
    plain = loop_for(kind, 1, None)
    submit(plain, request)
    assert finish(loop) < finish(plain) / 3


def test_the_sampler_is_asked_once_per_emitted_token() -> None:
    backend = backend_for(KINDS["fork"], 1)
    made: list[toy.ToySampler] = []
    original = backend.sampler
    backend.sampler = lambda *args: made.append(original(*args)) or made[-1]
    loop = make_loop(backend, KINDS["fork"](backend), ToyPieces(), [Adversary("random", 1, toy.N_VOCAB)])
    _, (answer,) = submit(loop, Request([3], SamplingParams(temperature=1, seed=5), max_tokens=60, stop=("zz",)))
    finish(loop)
    assert made[0].n_sampled == len(answer.tokens)
    assert made[0].closed


class GrammarSampler(toy.ToySampler):
    """Allows even and odd tokens in turn, as a grammar would allow keys and values: a sampler with a state."""

    def __init__(self, backend: toy.ToyBackend, params: SamplingParams) -> None:
        super().__init__(backend, params)
        self._parity = 0

    def sample(self, row: int) -> Token:
        logits = self._backend.logits(row).copy()
        logits[1 - self._parity :: 2] = -np.inf
        logits[list(self._params.banned)] = -np.inf
        self._parity = 1 - self._parity
        self.n_sampled += 1
        return int(logits.argmax())


@pytest.mark.parametrize("adversary", ["random", "half-right"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KIND_IDS)
def test_a_sampler_with_rules_of_its_own(kind: type[Memory], adversary: str) -> None:
    """Grammars advance with every emitted token and must never see a rejected one."""

    def constrained(drafter: str | None) -> Loop:
        loop = loop_for(kind, 1, drafter, seed=4)
        loop.backend.sampler = lambda params, history: GrammarSampler(loop.backend, params)
        return loop

    request = Request([1, 2], GREEDY, max_tokens=60, ignore_eos=True)
    loop = constrained(adversary)
    _, (answer,) = submit(loop, request)
    finish(loop)
    assert answer.tokens == alone(lambda: constrained(None), request)[0].tokens
    assert [token % 2 for token in answer.tokens] == [0, 1] * 30


class FlippingBackend(toy.ToyBackend):
    """Kernels that decide near ties by the width of the batch: wide batches prefer another token."""

    def decode(self, spans) -> None:
        super().decode(spans)
        if sum(len(span.tokens) for span in spans) > 2:
            self._rows = {row: -logits for row, logits in self._rows.items()}


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind is not Trim], ids=lambda k: k.name)
def test_no_livelock_when_widths_disagree(kind: type[Memory]) -> None:
    """Accepted tokens are never judged again, so even a model that changes its mind makes progress each step."""
    backend = FlippingBackend(1, n_rollback=8 if kind is Ring else 0)

    def wide_opinion(tokens: Sequence[Token], n: int) -> list[Token]:
        chain = list(tokens)
        for _ in range(n):
            chain.append(int((-toy.expected(chain)).argmax()))
        return chain[len(tokens) :]

    drafter = Adversary("half-right", 3, toy.N_VOCAB, wide_opinion)
    loop = make_loop(backend, kind(backend), ToyPieces(None), [drafter])
    _, (answer,) = submit(loop, Request([1, 2, 3], GREEDY, max_tokens=150))
    steps = finish(loop)
    assert len(answer.tokens) == 150
    assert steps <= 151, "every step after the prompt emits at least one token"


def test_replay_is_folded_into_the_next_batch() -> None:
    """After a cut nothing is decoded on its own: steps that draft never exceed emitted tokens."""
    loop = loop_for(KINDS["checkpoint"], 1, "half-right", seed=9)
    _, (answer,) = submit(loop, Request([1, 2, 3], GREEDY, max_tokens=120, ignore_eos=True))
    steps = finish(loop)
    usage = answer.finish.usage
    assert usage.replayed > 0
    assert steps == usage.completion_tokens - usage.accepted


def test_a_failed_batch_ends_its_sessions_and_no_others() -> None:
    loop = loop_for(KINDS["fork"], 2, None)
    _, (first,) = submit(loop, Request([1, 2], GREEDY, max_tokens=5, ignore_eos=True))
    loop.step()
    loop.backend.fail_next = True
    loop.step()
    assert first.reason == "error"
    assert "told to fail" in first.finish.error
    request = Request([1, 2], GREEDY, max_tokens=5, ignore_eos=True)
    _, (second,) = submit(loop, request)
    finish(loop)
    assert second.tokens == alone(lambda: loop_for(KINDS["fork"], 1, None), request)[0].tokens


def test_events_are_told_while_a_device_computes() -> None:
    happened: list[str] = []
    backend = backend_for(KINDS["fork"], 1, returns_early=True)
    decode, sampler = backend.decode, backend.sampler
    backend.decode = lambda spans: happened.append("decode") or decode(spans)

    def watched_sampler(*args: object) -> toy.ToySampler:
        made = sampler(*args)
        sample = made.sample
        made.sample = lambda *row: happened.append("read") or sample(*row)
        return made

    backend.sampler = watched_sampler
    loop = make_loop(backend, KINDS["fork"](backend), ToyPieces(), told=lambda: happened.append("sent"))
    request = Request([1, 2, 3], GREEDY, max_tokens=3, ignore_eos=True)
    loop.submit(request, [1, 2, 3], lambda event: happened.append(type(event).__name__))
    finish(loop)
    assert happened == [
        "decode", "read",
        "decode", "Chunk", "sent", "read",
        "decode", "Chunk", "sent", "read", "Chunk", "Finish", "sent",
        "sent",
    ]  # fmt: skip


def test_what_was_said_before_a_batch_failed_is_told() -> None:
    loop = loop_for(KINDS["fork"], 1, None, returns_early=True)
    _, (answer,) = submit(loop, Request([1, 2], GREEDY, max_tokens=5, ignore_eos=True))
    loop.step()
    loop.step()
    assert len(answer.tokens) == 1, "the second token is told while the third is computed"
    loop.backend.fail_next = True
    loop.step()
    assert (len(answer.tokens), answer.reason) == (2, "error")


def test_decoding_goes_on_while_a_long_prompt_is_read() -> None:
    loop = loop_for(KINDS["fork"], 2, None)
    _, (talking,) = submit(loop, Request([1], GREEDY, max_tokens=60, ignore_eos=True))
    loop.step()
    _, (reading,) = submit(loop, Request([2] * 70, GREEDY, max_tokens=1, ignore_eos=True))
    while not reading.tokens:
        before = len(talking.tokens)
        loop.step()
        assert len(talking.tokens) == before + 1
    assert len(talking.tokens) >= 10, "the prompt came in chunks of 7"


def test_a_short_prompt_is_read_in_a_step_of_its_own_but_never_two_in_a_row() -> None:
    loop = loop_for(KINDS["fork"], 3, None)
    _, (talking,) = submit(loop, Request([1], GREEDY, max_tokens=60, ignore_eos=True))
    loop.step()
    told = []
    for prompt in ([2] * 3, [4] * 3):
        _, (reading,) = submit(loop, Request(prompt, GREEDY, max_tokens=20, ignore_eos=True))
        before = len(talking.tokens)
        loop.step()
        assert len(reading.tokens) == 1
        told.append(len(talking.tokens) - before)
    assert told == [0, 1]


def test_what_is_computed_in_one_pass_is_not_separated() -> None:
    loop = loop_for(KINDS["trim"], 2, None)
    _, (talking,) = submit(loop, Request([1], GREEDY, max_tokens=60, ignore_eos=True))
    loop.step()
    _, (reading,) = submit(loop, Request([2] * 3, GREEDY, max_tokens=20, ignore_eos=True))
    loop.step()
    assert (len(talking.tokens), len(reading.tokens)) == (2, 1)


def test_choices_share_the_prompt() -> None:
    prompt = [rng % toy.N_VOCAB for rng in range(30)]
    sampling = SamplingParams(temperature=1, seed=4)
    loop = loop_for(KINDS["fork"], 4, None)
    decoded: list[int] = []
    original = loop.backend.decode
    loop.backend.decode = lambda spans: decoded.append(sum(len(s.tokens) for s in spans)) or original(spans)
    _, answers = submit(loop, Request(prompt, sampling, max_tokens=4, n=3, ignore_eos=True))
    finish(loop)
    assert sum(decoded) == 29 + 3 * 1 + 3 * 3
    for choice, answer in enumerate(answers):
        single = Request(prompt, replace(sampling, seed=4 + choice), max_tokens=4, ignore_eos=True)
        assert answer.tokens == alone(lambda: loop_for(KINDS["fork"], 1, None), single)[0].tokens
    assert [answer.finish.usage.cached_tokens for answer in answers] == [0, 29, 29]


def test_a_choice_whose_leader_is_cancelled_reads_the_prompt_itself() -> None:
    loop = loop_for(KINDS["fork"], 2, None)
    request = Request([1] * 30, GREEDY, max_tokens=3, n=2, ignore_eos=True)
    sessions, answers = submit(loop, request)
    loop.step()
    sessions[0].cancelled = True
    finish(loop)
    assert [answer.reason for answer in answers] == ["cancelled", "length"]


@pytest.mark.parametrize("unified", [True, False])
def test_slots_at_work_lie_next_to_each_other_where_that_matters(unified: bool) -> None:
    loop = loop_for(KINDS["checkpoint"], 4, None, unified=unified)
    short = Request([1, 2], GREEDY, max_tokens=1, ignore_eos=True, cache_prompt=False)
    submit(loop, short)
    finish(loop)
    submit(loop, replace(short, max_tokens=50))
    loop.step()
    assert [slot.id for slot in loop.scheduler.active] == [1], "of equals the one unused for longest"
    for request in (short, short):
        submit(loop, request)
        loop.step()
        loop.step()
    submit(loop, replace(short, max_tokens=50))
    loop.step()
    assert [slot.id for slot in loop.scheduler.active] == ([0, 1] if unified else [1, 2])


def test_the_slot_with_the_longest_shared_prefix_is_taken() -> None:
    loop = loop_for(KINDS["trim"], 2, None)
    for prompt in ([1] * 20, [2] * 20):
        submit(loop, Request(prompt, GREEDY, max_tokens=1, ignore_eos=True))
        finish(loop)
    _, (again,) = submit(loop, Request([2] * 15 + [3] * 5, GREEDY, max_tokens=1, ignore_eos=True))
    finish(loop)
    assert again.finish.usage.cached_tokens == 15
    _, (other,) = submit(loop, Request([7] * 5, GREEDY, max_tokens=1, ignore_eos=True))
    finish(loop)
    assert other.finish.usage.cached_tokens == 0
    _, (kept,) = submit(loop, Request([2] * 15 + [3] * 6, GREEDY, max_tokens=1, ignore_eos=True))
    finish(loop)
    assert kept.finish.usage.cached_tokens == 20, "the stranger took the slot unused for longest"


def test_a_conversation_that_goes_on_reads_only_what_is_new() -> None:
    loop = loop_for(KINDS["checkpoint"], 1, None)
    _, (first,) = submit(loop, Request([1] * 20, GREEDY, max_tokens=5, ignore_eos=True))
    finish(loop)
    _, (second,) = submit(loop, Request([1] * 20 + first.tokens + [4, 4], GREEDY, max_tokens=1, ignore_eos=True))
    finish(loop)
    assert second.finish.usage.cached_tokens == 24


def test_context_full_stops_with_a_reason() -> None:
    loop = loop_for(KINDS["fork"], 1, "right", n_ctx=32)
    request = Request([1] * 10, GREEDY, ignore_eos=True)
    _, (answer,) = submit(loop, request)
    finish(loop)
    assert answer.reason == "context"
    assert len(answer.tokens) == 32 - 10 + 1
    plain = alone(lambda: loop_for(KINDS["fork"], 1, None, n_ctx=32), request)
    assert answer.tokens == plain[0].tokens


def test_context_shift_goes_on_where_the_memory_can() -> None:
    request = Request([1, 2, 3], GREEDY, max_tokens=100, ignore_eos=True, context_shift=True, n_keep=2)
    loop = loop_for(KINDS["trim"], 1, "random", n_ctx=32)
    _, (answer,) = submit(loop, request)
    finish(loop)
    assert answer.reason == "length"
    plain = alone(lambda: loop_for(KINDS["trim"], 1, None, n_ctx=32), request)
    assert answer.tokens == plain[0].tokens


def test_a_time_limit_ends_the_answer_and_the_wait() -> None:
    loop = loop_for(KINDS["trim"], 1, None)
    _, (running,) = submit(loop, Request([1], GREEDY, ignore_eos=True, time_limit=1e-9))
    _, (waiting,) = submit(loop, Request([1], GREEDY, ignore_eos=True, time_limit=1e-9))
    finish(loop)
    assert running.reason == waiting.reason == "time"


def test_no_tokens_wanted_reads_the_prompt_only() -> None:
    loop = loop_for(KINDS["trim"], 1, None)
    _, (answer,) = submit(loop, Request([1] * 9, GREEDY, max_tokens=0))
    finish(loop)
    assert answer.reason == "length"
    assert answer.tokens == []
    assert loop.backend.length(0) == 9


def test_a_drafter_that_keeps_failing_is_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    loop = loop_for(KINDS["fork"], 1, "out-of-range", seed=2)
    submit(loop, Request([1], GREEDY, max_tokens=80, ignore_eos=True))
    finish(loop)
    assert not loop.speculator.guards[0].enabled
    assert "not in the vocabulary" in caplog.text
    assert "switched off" in caplog.text


@pytest.mark.parametrize("n_batch", [1, 2, 3, 5])
def test_batches_smaller_than_what_is_pending(n_batch: int) -> None:
    request = Request([1] * 9, GREEDY, max_tokens=20, ignore_eos=True)
    loop = loop_for(KINDS["fork"], 1, "half-right", n_batch=n_batch)
    _, (answer,) = submit(loop, request)
    finish(loop)
    assert answer.tokens == alone(lambda: loop_for(KINDS["fork"], 1, None), request)[0].tokens
