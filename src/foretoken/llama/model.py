"""A loaded GGUF."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import TracebackType

import llama_cpp

from foretoken.config import ModelConfig
from foretoken.errors import ModelLoadError
from foretoken.llama import gguf_file, library
from foretoken.llama.vocabulary import Vocabulary

_MULTI_ROPE = (8, 40)


class Model:
    """Owns a model's weights; close it after every context made from it."""

    def __init__(self, config: ModelConfig) -> None:
        self.path = Path(config.path)
        self.config = config
        gguf_file.check(self.path)
        library.start()
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = config.n_gpu_layers
        params.load_mtp = config.load_mtp
        params.vocab_only = config.vocab_only
        with library.complaints() as heard:
            pointer = llama_cpp.llama_model_load_from_file(str(self.path).encode(), params)
        if not pointer:
            raise ModelLoadError(self.path, library.reason(heard, "libllama gave no reason"))
        self._pointer: object | None = pointer
        self.vocabulary = Vocabulary(self)

    @property
    def pointer(self) -> object:
        if self._pointer is None:
            raise ValueError(f"{self.path} is closed")
        return self._pointer

    @property
    def recurrent(self) -> bool:
        """Whether some of the memory is a state that cannot be trimmed."""
        return bool(llama_cpp.llama_model_is_recurrent(self.pointer) or llama_cpp.llama_model_is_hybrid(self.pointer))

    @property
    def attention(self) -> bool:
        return not llama_cpp.llama_model_is_recurrent(self.pointer)

    @property
    def generates(self) -> bool:
        """Whether it can continue a text; an encoder only looks at whole ones."""
        causal = self.metadata(f"{self.architecture}.attention.causal") != "false"
        return causal and bool(llama_cpp.llama_model_has_decoder(self.pointer))

    @property
    def on_device(self) -> bool:
        """Whether all of it is computed by a device that works on its own while this process goes on."""
        n_layers = self.config.n_gpu_layers
        everything = n_layers < 0 or n_layers > int(llama_cpp.llama_model_n_layer(self.pointer))
        return everything and library.supports_gpu()

    @property
    def multi_rope(self) -> bool:
        """Whether positions have several components (M-RoPE)."""
        return llama_cpp.llama_model_rope_type(self.pointer) in _MULTI_ROPE

    @property
    def n_ctx_train(self) -> int:
        return int(llama_cpp.llama_model_n_ctx_train(self.pointer))

    @property
    def n_parameters(self) -> int:
        return int(llama_cpp.llama_model_n_params(self.pointer))

    @property
    def n_bytes(self) -> int:
        return int(llama_cpp.llama_model_size(self.pointer))

    @property
    def n_mtp_layers(self) -> int:
        return int(llama_cpp.llama_model_n_layer_nextn(self.pointer))

    @property
    def name(self) -> str:
        """What a person would call this model: its architecture, size and quantisation."""
        size = self.n_parameters
        rounded = f"{size / 1e9:.1f}B" if size >= 1e9 else f"{size / 1e6:.0f}M"
        return f"{self.metadata('general.name') or self.path.stem} ({self.architecture} {rounded} {self.quantisation})"

    @property
    def quantisation(self) -> str:
        kind = llama_cpp.llama_ftype_name(llama_cpp.llama_model_ftype(self.pointer)) or b""
        return str(kind.decode().split(" - ")[-1])

    @property
    def vocabulary_type(self) -> int:
        """The kind of tokenizer, by llama.cpp's number."""
        return int(llama_cpp.llama_vocab_type(llama_cpp.llama_model_get_vocab(self.pointer)))

    @property
    def architecture(self) -> str:
        return self.metadata("general.architecture") or "unknown"

    @property
    def chat_template(self) -> str | None:
        template = llama_cpp.llama_model_chat_template(self.pointer, None)
        return template.decode("utf-8", "replace") if template else None

    def metadata(self, key: str) -> str | None:
        """One value of the GGUF's header, as text."""
        size = llama_cpp.llama_model_meta_val_str(self.pointer, key.encode(), None, 0)
        if size < 0:
            return None
        buffer = ctypes.create_string_buffer(size + 1)
        llama_cpp.llama_model_meta_val_str(self.pointer, key.encode(), buffer, size + 1)
        return buffer.value.decode("utf-8", "replace")

    def close(self) -> None:
        if self._pointer is not None:
            pointer, self._pointer = self._pointer, None
            llama_cpp.llama_model_free(pointer)

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
