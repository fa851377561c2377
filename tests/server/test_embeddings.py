"""Embeddings and ranking over HTTP: what libllama itself computes, in every shape clients ask for."""

from __future__ import annotations

import base64
import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import llama_cpp
import numpy as np
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.engine import Engine
from foretoken.errors import ConfigError
from foretoken.server.embedding.vectors import normalised
from foretoken.types import Request, SamplingParams
from tests.server.running import TIMEOUT, RunningServer, running

TEXTS = ["The river runs to the sea.", "A stone", "def add(a, b):\n    return a + b\n" * 3]
MEAN, LAST, RANK = 1, 3, 4


def directly(path: Path, texts: Sequence[str], pooling: int) -> np.ndarray:
    """The same vectors from a bare libllama, one text at a time."""
    llama_cpp.llama_backend_init()
    loading = llama_cpp.llama_model_default_params()
    loading.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), loading)
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 512
    params.n_threads = params.n_threads_batch = 1
    params.embeddings, params.pooling_type = True, pooling
    context = llama_cpp.llama_init_from_model(model, params)
    vocab, found = llama_cpp.llama_model_get_vocab(model), []
    width = 1 if pooling == RANK else llama_cpp.llama_model_n_embd(model)
    for text in texts:
        room = (llama_cpp.llama_token * 512)()
        n = llama_cpp.llama_tokenize(vocab, text.encode(), len(text.encode()), room, 512, True, True)
        if memory := llama_cpp.llama_get_memory(context):
            llama_cpp.llama_memory_clear(memory, True)
        pointer = ctypes.cast(room, ctypes.POINTER(llama_cpp.llama_token))
        assert llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(pointer, n)) == 0
        row = np.ctypeslib.as_array(llama_cpp.llama_get_embeddings_seq(context, 0), (width,)).copy()
        found.append(row if pooling == RANK else row / np.linalg.norm(row))
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return np.stack(found)


@pytest.fixture(scope="module")
def bert_path(tiny_path: Callable[..., Path]) -> Path:
    return tiny_path("bert")


@pytest.fixture(scope="module")
def bert(bert_path: Path) -> Iterator[RunningServer]:
    with running(bert_path) as server:
        yield server


@pytest.fixture(scope="module")
def both(model_path: Path) -> Iterator[RunningServer]:
    """A hybrid that generates and embeds."""
    with running(model_path, embeddings=True) as server:
        yield server


@pytest.fixture(scope="module")
def ranker(tiny_path: Callable[..., Path]) -> Iterator[RunningServer]:
    with running(tiny_path("bert-rank")) as server:
        yield server


def client(server: RunningServer) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=TIMEOUT, max_retries=0)


def vectors(server: RunningServer, texts: Any = TEXTS, **fields: Any) -> np.ndarray:
    answer = client(server).embeddings.create(model="any", input=texts, **fields)
    assert [one.index for one in answer.data] == list(range(len(answer.data)))
    return np.array([one.embedding for one in answer.data])


def post(server: RunningServer, path: str, **body: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=TIMEOUT)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.min(np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)))


def test_an_encoder_says_what_libllama_says(bert: RunningServer, bert_path: Path) -> None:
    found = vectors(bert)
    assert cosine(found, directly(bert_path, TEXTS, MEAN)) > 0.99999
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    # Unlike texts have unlike vectors: the test would not notice a constant otherwise.
    assert found[0] @ found[1] < 0.999


def test_a_generating_model_embeds_beside_its_answers(both: RunningServer, model_path: Path, engine: Engine) -> None:
    """Neither disturbs the other, even at the same time."""
    asked = Request("The river runs", SamplingParams(temperature=0), 48)
    expected = engine.complete(asked)
    with ThreadPoolExecutor(4) as pool:
        body = {"prompt": "The river runs", "n_predict": 48, "temperature": 0}
        said = [pool.submit(post, both, "/completion", **body) for _ in range(2)]
        found = [pool.submit(vectors, both) for _ in range(3)]
    assert [one.result().json()["content"] for one in said] == [expected] * 2
    for one in found:
        assert cosine(one.result(), directly(model_path, TEXTS, LAST)) > 0.9999


def test_shapes_of_input(bert: RunningServer) -> None:
    tokens = [post(bert, "/tokenize", content=text, add_special=True).json()["tokens"] for text in TEXTS]
    assert np.array_equal(vectors(bert, tokens), vectors(bert))
    assert np.array_equal(vectors(bert, tokens[0]), vectors(bert, TEXTS[0]))
    many = [f"{text} {n}" for n in range(20) for text in TEXTS]
    # On CPU nothing depends on what is asked beside it.
    assert np.array_equal(vectors(bert, many), np.concatenate([vectors(bert, text) for text in many]))


def test_base64_and_float_are_the_same_numbers(bert: RunningServer) -> None:
    texts = client(bert).embeddings.create(model="any", input=TEXTS, encoding_format="base64").data
    found = [np.frombuffer(base64.b64decode(str(one.embedding)), "<f4") for one in texts]
    assert np.array_equal(np.array(found), vectors(bert, encoding_format="float").astype("<f4"))


def test_usage_counts_tokens(bert: RunningServer) -> None:
    answer = client(bert).embeddings.create(model="any", input=TEXTS)
    n = sum(len(post(bert, "/tokenize", content=text, add_special=True).json()["tokens"]) for text in TEXTS)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == n


def test_llama_cpps_own_endpoint(bert: RunningServer) -> None:
    answer = post(bert, "/embedding", content=TEXTS).json()
    assert np.array_equal([one["embedding"][0] for one in answer], vectors(bert))
    raw = np.array(post(bert, "/embeddings", input=TEXTS[0], embd_normalize=-1).json()[0]["embedding"][0])
    assert np.linalg.norm(raw) > 1.5
    assert cosine(raw[None], vectors(bert, TEXTS[0])) > 0.99999


def test_a_vector_for_every_token(bert_path: Path) -> None:
    with running(bert_path, pooling="none") as server:
        n = len(post(server, "/tokenize", content=TEXTS[0], add_special=True).json()["tokens"])
        assert np.shape(post(server, "/embedding", content=TEXTS[0]).json()[0]["embedding"]) == (n, 64)
        refused = post(server, "/v1/embeddings", input=TEXTS[0])
        assert refused.status_code == 400
        assert "/embedding" in refused.json()["error"]["message"]


def test_a_reranker_puts_documents_in_libllamas_order(ranker: RunningServer, tiny_path: Callable[..., Path]) -> None:
    query = "What is a river?"
    # The tiny vocabulary adds nothing between the two, so that they are one text for libllama too.
    scores = directly(tiny_path("bert-rank"), [query + text for text in TEXTS], RANK)[:, 0]
    body = {"query": query, "documents": TEXTS}
    answer = post(ranker, "/v1/rerank", **body).json()
    found = {one["index"]: one["relevance_score"] for one in answer["results"]}
    assert [one["index"] for one in answer["results"]] == list(np.argsort(-scores))
    assert np.allclose([found[n] for n in range(3)], scores, atol=1e-4)
    assert len(post(ranker, "/rerank", **body, top_n=2).json()["results"]) == 2
    told = post(ranker, "/rerank", query=query, texts=TEXTS, return_text=True).json()
    assert [one["text"] for one in told] == [TEXTS[n] for n in np.argsort(-scores)]


def test_what_a_model_cannot_do_is_a_501_with_the_reason(
    bert: RunningServer, ranker: RunningServer, both: RunningServer, server: RunningServer
) -> None:
    chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    refusals = [
        (post(server, "/v1/embeddings", input="x"), "--embeddings"),
        (post(server, "/v1/rerank", query="x", documents=["y"]), "--embeddings"),
        (post(both, "/v1/rerank", query="x", documents=["y"]), "reranker"),
        (post(bert, "/v1/rerank", query="x", documents=["y"]), "reranker"),
        (post(ranker, "/v1/embeddings", input="x"), "/v1/rerank"),
        (post(bert, "/v1/chat/completions", **chat), "/v1/embeddings"),
        (post(bert, "/completion", prompt="x", n_predict=2), "/v1/embeddings"),
        (post(bert, "/v1/messages", **chat), "/v1/embeddings"),
        (post(bert, "/v1/responses", input="x"), "/v1/embeddings"),
    ]
    for answer, reason in refusals:
        assert answer.status_code == 501, answer.text
        assert reason in answer.json()["error"]["message"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "nothing to embed"),
    ({"input": []}, "empty"),
    ({"input": [""]}, "empty"),
    ({"input": [[99999]]}, "vocabulary"),
    ({"input": {"image": 1}}, "text"),
    ({"input": [None]}, "give a text"),
    ({"input": "x", "dimensions": 16}, "dimensions"),
    ({"input": "x", "encoding_format": "int8"}, "encoding_format"),
    ({"input": ["x"] * 2049}, "2048"),
    ({"input": "the river " * 600}, "-ub"),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_what_cannot_be_embedded_says_why(bert: RunningServer, body: dict[str, Any], reason: str) -> None:
    answer = post(bert, "/v1/embeddings", **body)
    assert answer.status_code == 400
    assert reason in answer.json()["error"]["message"]


def test_pages_of_a_model_that_only_embeds(bert: RunningServer) -> None:
    for path in ("/health", "/props", "/slots", "/metrics", "/v1/models", "/live"):
        assert httpx.get(bert.url + path, timeout=TIMEOUT).status_code == 200, path


def test_texts_computed_at_once_are_not_mixed_up(bert: RunningServer, bert_path: Path) -> None:
    many = [f"{text} {n}" for n in range(12) for text in TEXTS]
    with running(bert_path, exact=False) as server:
        assert cosine(vectors(server, many), vectors(bert, many)) > 0.999


def test_a_long_text_is_embedded_by_its_last_token(model_path: Path) -> None:
    """Piece by piece is as good as at once."""
    text = "the river runs to the sea and " * 40
    with running(model_path, embeddings=True, n_ubatch=64) as server:
        assert cosine(vectors(server, text), directly(model_path, [text], LAST)) > 0.9999


def test_models_that_do_not_rank_or_write_are_refused_at_the_start(model_path: Path, bert_path: Path) -> None:
    from foretoken.engine.embedder import Embedder

    with pytest.raises(ConfigError, match="encoder"):
        Engine.load(bert_path, n_threads=1)
    with Engine.load(model_path, n_threads=1, n_ctx=256) as engine, pytest.raises(ConfigError, match="reranker"):
        Embedder(engine.assembly.model, EngineConfig(ModelConfig(model_path), pooling="rank", n_threads=1))


@given(
    arrays.arrays(np.float32, (3, 5), elements=st.floats(-1e3, 1e3, width=32)),
    st.sampled_from([0, 1, 2, 3]),
)
def test_normalised_rows_have_length_one_and_point_where_they_did(rows: np.ndarray, kind: int) -> None:
    found = normalised(rows, kind).astype(np.float64)
    for before, after in zip(rows.astype(np.float64), found, strict=True):
        if not before.any():
            assert not after.any()
            continue
        length = np.abs(after).max() / 32760 if kind == 0 else np.sum(np.abs(after) ** kind) ** (1 / kind)
        assert length == pytest.approx(1, rel=1e-3)
        assert np.allclose(
            np.cross(before[:3], after[:3]) / (np.linalg.norm(before) * np.linalg.norm(after)), 0, atol=1e-5
        )
