"""The tiny models are what they should be, and lively enough to test with."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llama_cpp as lib
import numpy as np
import pytest

from . import ARCHITECTURES, ensure, write
from .architectures import CATALOGUE
from .session import Session
from .tensors import Array
from .vocabulary import CONTROL, SIZE, control_ids, token_id

TEXTS = (
    "def add(a: int, b: int) -> int:\n    return a + b  # it's 42\n",
    "Plain English, with 'quotes', numbers 3.14159 and\ttabs.\r\n",
    "中文分词没有空格。",
    "Grüße, naïve café 🙂👩‍👩‍👧 été",
    "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n<think>\n",
)
HYBRID = [name for name in ARCHITECTURES if CATALOGUE[name].memory == "hybrid"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder the models are written to."""
    return tmp_path_factory.mktemp("tiny")


@pytest.fixture(scope="module", params=[(a, q) for a in ARCHITECTURES for q in ("F16", "Q8_0")], ids="-".join)
def model(request: pytest.FixtureRequest, directory: Path) -> Iterator[tuple[str, Session]]:
    """Loads each architecture in each quantisation."""
    arch, quant = request.param
    session = Session(ensure(directory, arch, quant))
    yield arch, session
    session.close()


def prompt(seed: int, n: int) -> list[int]:
    """Draws a text of n ordinary tokens."""
    return [int(t) for t in np.random.default_rng(seed).integers(0, token_id(CONTROL[0]), n)]


def difference(a: Array, b: Array) -> float:
    """Measures how far two rows of logits are apart, relative to their size."""
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def test_remembers_as_it_should(model: tuple[str, Session]) -> None:
    """Attention, recurrent state, or both."""
    arch, session = model
    memory = CATALOGUE[arch].memory
    assert lib.llama_model_is_recurrent(session.model) == (memory == "recurrent")
    assert lib.llama_model_is_hybrid(session.model) == (memory == "hybrid")
    assert lib.llama_vocab_n_tokens(session.vocab) == SIZE


def test_long_text_stays_finite(model: tuple[str, Session]) -> None:
    """No state explodes, no row of logits is flat."""
    _, session = model
    session.clear()
    logits = session.decode(prompt(1, 1024))
    assert np.isfinite(logits).all()
    assert logits.std(axis=1).min() > 1


def test_far_history_matters(model: tuple[str, Session]) -> None:
    """One other token 30 positions back changes the logits by far more than noise."""
    _, session = model
    apart: list[float] = []
    for seed in range(5):
        tokens = prompt(seed, 64)
        before = session.read(tokens)
        assert difference(before, session.read(tokens)) == 0
        tokens[-31] += 1
        apart.append(difference(before, session.read(tokens)))
    assert min(apart) > 0.001
    assert np.median(apart) > 0.02


def test_greedy_text_wanders(model: tuple[str, Session]) -> None:
    """Greedy text has many tokens, none of them the end, and depends on its prompt."""
    _, session = model
    found = [session.greedy(session.tokenise(text), 48) for text in TEXTS]
    for tokens in found:
        assert len(set(tokens)) > 16
        assert not set(tokens) & set(control_ids())
    assert len({tuple(tokens) for tokens in found}) == len(TEXTS)


def test_text_round_trips(model: tuple[str, Session]) -> None:
    """Every text comes back whole, and words are not spelt in bytes."""
    _, session = model
    for text in TEXTS:
        assert session.detokenise(session.tokenise(text)) == text
    assert len(session.tokenise("    return self.name if self.name is not None")) <= 12
    assert session.tokenise("<|im_end|>") == [token_id("<|im_end|>")]
    assert lib.llama_vocab_eos(session.vocab) == token_id("<|im_end|>")
    assert lib.llama_vocab_is_eog(session.vocab, token_id("<|endoftext|>"))
    assert not lib.llama_vocab_get_add_bos(session.vocab)


@pytest.mark.parametrize("arch", HYBRID)
def test_both_memories_matter(arch: str, directory: Path) -> None:
    """A hybrid with one text's attention and another's recurrent state is neither of them."""
    session = Session(ensure(directory, arch))
    ours, theirs, after = prompt(1, 40), prompt(2, 40), [7]
    session.read(theirs)
    state = session.save_recurrent()
    pure_theirs = session.decode(after, 40)[-1]
    session.read(ours)
    pure_ours = session.decode(after, 40)[-1]
    session.read(ours)
    session.load_recurrent(state)
    mixed = session.decode(after, 40)[-1]
    session.close()
    assert difference(pure_ours, mixed) > 0.05
    assert difference(pure_theirs, mixed) > 0.05


def test_draft_head_predicts(directory: Path) -> None:
    """The multi-token-prediction head loads, and reads both the hidden state and the token."""
    session = Session(ensure(directory, "qwen35-mtp"), load_mtp=True)
    tokens = prompt(1, 16)
    logits = session.draft_head(tokens)
    assert np.isfinite(logits).all()
    assert difference(logits, session.draft_head(tokens)) == 0
    assert difference(logits, session.draft_head([*tokens[:-1], 7])) > 0.05
    assert difference(logits, session.draft_head([7, *tokens[1:]])) > 0.001
    session.close()


def test_files_depend_on_the_seed_only(tmp_path: Path) -> None:
    """The same seed gives the same bytes, another seed others."""
    first, again, other = (
        write(tmp_path / name, "qwen35", seed=seed).read_bytes() for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first == again
    assert first != other


def test_ensure_writes_once_among_many(tmp_path: Path) -> None:
    """Whoever asks at the same time gets a whole file, and nothing else is left behind."""
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: ensure(tmp_path, "mamba", "Q4_0"), range(4)))
    assert {p.name for p in tmp_path.iterdir()} == {"mamba-Q4_0.gguf"} == {p.name for p in paths}
    written = paths[0].stat().st_mtime_ns
    assert ensure(tmp_path, "mamba", "Q4_0").stat().st_mtime_ns == written
    Session(paths[0]).close()
