"""What a loaded engine says about itself."""

from __future__ import annotations

from foretoken.engine.engine import Engine
from foretoken.llama import library
from foretoken.worker.messages import Properties

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
)


def properties_of(engine: Engine) -> Properties:
    """The facts the server needs, read once after loading."""
    model = engine.assembly.model
    found = {key: value for key in _METADATA if (value := model.metadata(key)) is not None}
    embedding = model.metadata(f"{model.architecture}.embedding_length")
    return Properties(
        model_path=str(model.path),
        model_name=model.name,
        description=engine.assembly.describe(),
        architecture=model.architecture,
        library=library.version(),
        n_slots=engine.assembly.context.config.n_sequences,
        n_ctx=engine.n_ctx,
        n_ctx_train=model.n_ctx_train,
        n_vocab=engine.vocabulary.n_tokens,
        n_parameters=model.n_parameters,
        n_bytes=model.n_bytes,
        quantisation=model.quantisation,
        vocabulary_type=model.vocabulary_type,
        drafters=tuple(engine.call(lambda loop: list(loop.speculator.statistics))),
        metadata={**found, "embedding_length": embedding or "0"},
        chat_template=model.chat_template,
    )
