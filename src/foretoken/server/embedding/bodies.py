"""What the bodies of the endpoints for embeddings and ranking may say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from foretoken.errors import InvalidRequest
from foretoken.server.fields import Count

MAX_TEXTS = 2048


class EmbeddingBody(BaseModel):
    """The body of /v1/embeddings; `content` is llama.cpp's older name for its input."""

    model_config = ConfigDict(extra="ignore")

    input: Any = Field(None, description="A text, a list of tokens, or a list of such inputs.")
    content: Any = Field(None, description="The same; answered in llama.cpp's own shape.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Count | None = None
    embd_normalize: Annotated[int, Field(ge=-1, le=64)] = 2

    @property
    def given(self) -> Any:
        """What is to be embedded, under either name."""
        if self.dimensions is not None:
            raise InvalidRequest("dimensions: vectors have the model's own size; cut them yourself if it allows that")
        value = self.input if self.input is not None else self.content
        if value is None:
            raise InvalidRequest("input: there is nothing to embed")
        return value


class Document(BaseModel):
    """A document as an object."""

    model_config = ConfigDict(extra="ignore")

    text: str


class RerankBody(BaseModel):
    """The body of /rerank: Jina's fields, or with `texts` those of text-embeddings-inference."""

    model_config = ConfigDict(extra="ignore")

    query: str
    documents: Annotated[list[str | Document], Field(max_length=MAX_TEXTS)] | None = None
    texts: Annotated[list[str], Field(max_length=MAX_TEXTS)] | None = None
    top_n: Count | None = None
    return_text: bool = False
    return_documents: bool = False

    @property
    def given(self) -> list[str]:
        found = [one if isinstance(one, str) else one.text for one in self.documents or self.texts or []]
        if not found:
            raise InvalidRequest("documents: give the texts to be ranked")
        return found
