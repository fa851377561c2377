"""What a loaded engine says about itself."""

from __future__ import annotations

from typing import Any

from foretoken.engine.embedder import Embedder
from foretoken.engine.engine import Engine
from foretoken.llama import library
from foretoken.llama.model import Model
from foretoken.worker.messages import EmbeddingProperties, Properties

_METADATA = (
    "general.name",
    "general.architecture",
    "general.license",
    "tokenizer.ggml.model",
    "tokenizer.ggml.fim_pre_token_id",
    "tokenizer.ggml.fim_suf_token_id",
    "tokenizer.ggml.fim_mid_token_id",
    "tokenizer.ggml.fim_rep_token_id",
    "tokenizer.ggml.fim_sep_token_id",
    "tokenizer.chat_template.rerank",
)


def properties_of(engine: Engine, embedder: Embedder | None = None) -> Properties:
    """The facts the server needs, read once after loading."""
    model = engine.assembly.model
    return Properties(
        **_of_model(model),
        description=engine.assembly.describe(),
        n_slots=engine.assembly.context.config.n_sequences,
        n_ctx=engine.n_ctx,
        drafters=tuple(engine.call(lambda loop: list(loop.speculator.statistics))),
        embedding=_of_embedder(embedder) if embedder else None,
    )


def encoder_properties(embedder: Embedder) -> Properties:
    """The same of a model that only embeds."""
    return Properties(
        **_of_model(embedder.model),
        description=embedder.describe(),
        n_slots=0,
        n_ctx=embedder.n_max,
        drafters=(),
        generates=False,
        embedding=_of_embedder(embedder),
    )


def _of_model(model: Model) -> dict[str, Any]:
    found = {key: value for key in _METADATA if (value := model.metadata(key)) is not None}
    embedding = model.metadata(f"{model.architecture}.embedding_length")
    return {
        "model_path": str(model.path),
        "model_name": model.name,
        "architecture": model.architecture,
        "library": library.version(),
        "n_ctx_train": model.n_ctx_train,
        "n_vocab": model.vocabulary.n_tokens,
        "n_parameters": model.n_parameters,
        "n_bytes": model.n_bytes,
        "quantisation": model.quantisation,
        "vocabulary_type": model.vocabulary_type,
        "metadata": {**found, "embedding_length": embedding or "0"},
        "recurrent": model.recurrent,
        "chat_template": model.chat_template,
    }


def _of_embedder(embedder: Embedder) -> EmbeddingProperties:
    return EmbeddingProperties(embedder.pooling, embedder.n_out, embedder.n_max)
