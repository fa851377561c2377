"""Models, contexts and vocabularies: what is wrong comes out as an error with a reason."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from foretoken.backend import Span
from foretoken.config import ContextConfig, ModelConfig
from foretoken.errors import ConfigError, ContextError, DecodeError, ModelLoadError
from foretoken.llama import library
from foretoken.llama.context import Context
from foretoken.llama.model import Model
from foretoken.models import DEFAULT, path_of
from tests.conftest import TinyModel

TINY = ContextConfig(n_ctx=256, n_batch=64, n_ubatch=64, n_threads=1)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="no such file"):
        Model(ModelConfig(tmp_path / "gone.gguf"))


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="folder"):
        Model(ModelConfig(tmp_path))


@pytest.mark.parametrize("content", [b"", b"GG", b"\x00" * 4096, os.urandom(65536), b"hello world" * 99])
def test_a_file_that_is_no_gguf(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "random.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelLoadError, match="not a GGUF"):
        Model(ModelConfig(path))


@pytest.mark.parametrize("keep", [0.0001, 0.01, 0.1, 0.5, 0.9, 0.999])
def test_a_gguf_cut_in_the_middle(tmp_path: Path, keep: float, tiny_path: Callable[..., Path]) -> None:
    data = tiny_path("qwen35").read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[: max(5, int(len(data) * keep))])
    with pytest.raises(ModelLoadError) as caught:
        Model(ModelConfig(path))
    assert caught.value.reason != "libllama gave no reason"


def test_an_unknown_architecture(tmp_path: Path, tiny_path: Callable[..., Path]) -> None:
    data = tiny_path("llama").read_bytes()
    path = tmp_path / "other.gguf"
    path.write_bytes(data.replace(b"llama", b"lhama"))
    with pytest.raises(ModelLoadError, match="unknown model architecture: 'lhama'"):
        Model(ModelConfig(path))


OUT_OF_MEMORY = """
import resource, sys
from pathlib import Path
from foretoken.config import ContextConfig, ModelConfig
from foretoken.llama.context import Context
from foretoken.llama.model import Model
from foretoken.models import DEFAULT, path_of
model = Model(ModelConfig(Path(sys.argv[1])))
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000,) * 2)
Context(model, ContextConfig(n_ctx=2**21, n_threads=1))
"""


def test_a_context_larger_than_memory(tiny_path: Callable[..., Path]) -> None:
    command = [sys.executable, "-c", OUT_OF_MEMORY, str(tiny_path("llama"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "ContextError: no context of 1 x 2097152 tokens" in done.stderr


def test_a_context_larger_than_numbers(tiny_model: TinyModel) -> None:
    with pytest.raises(ContextError, match="more than the library counts"):
        Context(tiny_model("llama"), ContextConfig(n_ctx=2**30, n_sequences=64, n_threads=1))


def test_an_unknown_kv_type(tiny_model: TinyModel) -> None:
    with pytest.raises(ConfigError, match="q8_0"):
        Context(tiny_model("llama"), ContextConfig(n_ctx=256, kv_type_k="float"))


@pytest.mark.parametrize("kv", ["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"])
def test_every_kv_type_decodes(kv: str, tiny_model: TinyModel) -> None:
    config = ContextConfig(n_ctx=256, n_threads=1, flash_attention="on", kv_type_k=kv, kv_type_v=kv)
    with Context(tiny_model("qwen35"), config) as context:
        context.decode([Span(0, 0, [1, 2, 3], 1, 0)])
        assert context.logits(2).std() > 0


def test_more_outputs_than_the_context_was_made_for_are_refused(tiny_model: TinyModel) -> None:
    with (
        Context(tiny_model("llama"), ContextConfig(n_ctx=256, n_outputs=4, n_threads=1)) as context,
        pytest.raises(DecodeError, match="5 rows"),
    ):
        context.decode([Span(0, 0, [1] * 5, 5, 0)])


def test_more_rows_than_a_batch_holds_are_refused(tiny_model: TinyModel) -> None:
    with Context(tiny_model("llama"), TINY) as context, pytest.raises(DecodeError, match="65 rows"):
        context.decode([Span(0, 0, [1] * 65, 1, 0)])


def test_tokens_out_of_range_are_refused(tiny_model: TinyModel) -> None:
    with Context(tiny_model("llama"), TINY) as context, pytest.raises(DecodeError, match="invalid"):
        context.decode([Span(0, 0, [10**6], 1, 0)])


def test_closed_handles_say_so(tiny_path: Callable[..., Path]) -> None:
    model = Model(ModelConfig(tiny_path("llama")))
    context = Context(model, TINY)
    context.close()
    context.close()
    with pytest.raises(ValueError, match="closed"):
        context.decode([Span(0, 0, [1], 1, 0)])
    model.close()
    model.close()
    with pytest.raises(ValueError, match="closed"):
        _ = model.n_parameters


def test_the_librarys_log_is_python_logging(caplog: pytest.LogCaptureFixture, tiny_path: Callable[..., Path]) -> None:
    with caplog.at_level(logging.DEBUG, "foretoken.libllama"):
        Model(ModelConfig(tiny_path("llama"))).close()
        gc.collect()
    assert any("general.architecture" in record.message for record in caplog.records)
    assert not any(record.message.endswith("\n") for record in caplog.records)


def test_the_version_names_both(tiny_model: TinyModel) -> None:
    assert library.version().startswith("llama-cpp-python 0.3.36")


def test_a_model_describes_itself(tiny_model: TinyModel) -> None:
    model = tiny_model("qwen35")
    assert model.recurrent
    assert model.attention
    assert model.architecture == "qwen35"
    assert "Q8_0" in model.name
    assert "im_start" in (model.chat_template or "")
    assert model.metadata("no.such.key") is None
    assert not tiny_model("llama").recurrent
    assert not tiny_model("mamba2").attention
    assert tiny_model("qwen35-mtp").n_mtp_layers == 1


def test_vocab_only_is_enough_to_tokenise(tiny_path: Callable[..., Path], tiny_model: TinyModel) -> None:
    with Model(ModelConfig(tiny_path("qwen35"), vocab_only=True)) as model:
        text = "def f(x): return '🙂 中文'"
        assert model.vocabulary.detokenize(model.vocabulary.tokenize(text)) == text
        assert model.vocabulary.same_as(tiny_model("qwen35").vocabulary)
        assert model.chat_template


def test_special_tokens_are_read_only_where_asked(tiny_model: TinyModel) -> None:
    vocabulary = tiny_model("qwen35").vocabulary
    (token,) = vocabulary.tokenize("<|im_end|>")
    assert token in vocabulary.end_tokens
    assert vocabulary.text_piece(token) == b""
    assert vocabulary.piece(token) == b"<|im_end|>"
    assert len(vocabulary.tokenize("<|im_end|>", special=False)) > 1


def test_layers_that_are_left_out_are_no_news(caplog: pytest.LogCaptureFixture) -> None:
    """The embedded model has an MTP layer, which is loaded only for who asks for it."""
    with caplog.at_level(logging.DEBUG, "foretoken.libllama"), Model(ModelConfig(path_of(DEFAULT))):
        pass
    assert any("unused tensor" in record.message for record in caplog.records)
    assert not [record.message for record in caplog.records if record.levelno >= logging.WARNING]
