"""What every endpoint shares: the worker, the vocabulary, the template, the settings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec.structs import replace

from foretoken.chat import ChatTemplate
from foretoken.engine.validation import prompt_tokens as validated
from foretoken.errors import InvalidRequest, PromptTooLong
from foretoken.llama.vocabulary import Vocabulary
from foretoken.server.auth import Keys
from foretoken.server.errors import ApiError
from foretoken.server.fields import GenerationFields
from foretoken.server.known_texts import KnownTexts
from foretoken.server.limits import Pace, Streams
from foretoken.server.metrics import Metrics
from foretoken.server.requests_kept import KeptRequests
from foretoken.server.responses.store import Store, open_store
from foretoken.server.sampling import sampling_params, speculation_params
from foretoken.server.settings import ServerSettings
from foretoken.server.tools.dialect import Dialect, dialect_of
from foretoken.types import Request, Token
from foretoken.worker.messages import Properties
from foretoken.worker.supervisor import Supervisor
from foretoken.worker.vocabulary import open_vocabulary

T = TypeVar("T")

_LONG_TEXT = 8192
"""Characters from which on a text is tokenised in a thread, so that other streams go on meanwhile."""


class Service:
    """The server's parts; vocabulary and template are there once the model has been loaded."""

    def __init__(self, worker: Supervisor, settings: ServerSettings) -> None:
        self.worker = worker
        self.settings = settings
        self.keys = Keys(settings.api_keys)
        self.streams = Streams(settings.max_streams)
        self.pace = Pace()
        self.kept = KeptRequests(settings.keep_requests)
        self.metrics = Metrics(worker)
        self._vocabulary: Vocabulary | None = None
        self._texts: KnownTexts | None = None
        self._template: ChatTemplate | None = None
        self._dialect: Dialect | None = None
        self._open = ExitStack()
        self.responses: Store | None = None
        """Keeps responses, if the operator wants that."""

    async def start(self) -> Properties:
        """Load the model in the worker, then its vocabulary here."""
        self.responses = await open_store(self.settings)
        properties = await self.worker.start()
        path = Path(properties.model_path)
        vocabulary = await asyncio.to_thread(self._open.enter_context, open_vocabulary(path))
        source = self.settings.chat_template or properties.chat_template
        names = [
            vocabulary.piece(token).decode("utf-8", "replace") if token is not None else ""
            for token in (vocabulary.bos, vocabulary.eos)
        ]
        self._template = ChatTemplate(source, *names)
        self._dialect = dialect_of(self._template)
        self._texts = KnownTexts(vocabulary)
        self._vocabulary = vocabulary
        return properties

    async def close(self) -> None:
        await self.worker.close()
        self._vocabulary = None
        self._open.close()
        if self.responses is not None:
            await self.responses.close()

    @property
    def loaded(self) -> bool:
        return self._vocabulary is not None

    @property
    def vocabulary(self) -> Vocabulary:
        if self._vocabulary is None:
            raise ApiError(503, "Loading model", retry_after=2)
        return self._vocabulary

    @property
    def texts(self) -> KnownTexts:
        """Tokenises conversations."""
        if self._texts is None:
            raise ApiError(503, "Loading model", retry_after=2)
        return self._texts

    @property
    def template(self) -> ChatTemplate:
        if self._template is None:
            raise ApiError(503, "Loading model", retry_after=2)
        return self._template

    @property
    def dialect(self) -> Dialect:
        """How the model is told of tools, and calls them."""
        if self._dialect is None:
            raise ApiError(503, "Loading model", retry_after=2)
        return self._dialect

    @property
    def properties(self) -> Properties:
        if self.worker.properties is None:
            raise ApiError(503, "Loading model", retry_after=2)
        return self.worker.properties

    @property
    def model_name(self) -> str:
        """What the model is called in answers."""
        if self.settings.alias is not None:
            return self.settings.alias
        properties = self.worker.properties
        return os.path.basename(properties.model_path) if properties else "loading"

    async def tokenizing(self, function: Callable[..., T], *args: Any, size: int) -> T:
        """Run something that tokenises `size` characters, out of the way when they are many."""
        return function(*args) if size < _LONG_TEXT else await asyncio.to_thread(function, *args)

    def request(
        self,
        body: GenerationFields,
        tokens: list[Token],
        owner: str,
        *,
        max_tokens: int | None,
        n: int = 1,
        logprobs: int | None = None,
        prompt_logprobs: int | None = None,
        thought: Literal["none", "may", "open"] = "none",
    ) -> Request:
        """The engine's request for one prompt, checked as the engine itself would."""
        if not self.properties.generates:
            raise ApiError(501, "this model makes embeddings, not text; ask /v1/embeddings or /v1/rerank")
        settings, n_ctx = self.settings, self.properties.n_ctx
        limit = settings.max_prompt
        if limit is not None and len(tokens) > limit:
            raise PromptTooLong(len(tokens), limit)
        if body.n_cache_reuse and self.properties.recurrent:
            raise InvalidRequest(
                "n_cache_reuse: this model has a recurrent state, which depends on every token before it and cannot be "
                "moved to another place; leave the field out, prompts that begin alike are reused anyway"
            )
        constraint = body.constraint
        keep = len(tokens) if body.n_keep == -1 else body.n_keep or 0
        request = Request(
            tokens,
            sampling_params(body, settings.sampling, self.vocabulary, n_ctx),
            max_tokens=settings.n_predict if max_tokens is None else None if max_tokens < 0 else max_tokens,
            stop=body.stops,
            n=n,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
            ignore_eos=bool(body.ignore_eos),
            time_limit=settings.time_limit,
            cache_prompt=settings.cache_prompt if body.cache_prompt is None else body.cache_prompt,
            n_keep=keep,
            speculation=speculation_params(body.speculative, self.properties.drafters),
            details=bool(body.return_speculation),
            constraint=constraint and replace(constraint, thought=thought),
            owner=owner,
        )
        validated(request, self.vocabulary, n_ctx)
        return request

    def prompt_text(self, request: Request) -> str:
        """The prompt as the model sees it, special tokens by their names."""
        assert not isinstance(request.prompt, str | bytes)
        return self.vocabulary.detokenize(request.prompt)

    def check_choices(self, n: int) -> None:
        if n > self.settings.max_choices:
            raise ApiError(400, f"prompts times choices may be at most {self.settings.max_choices}, not {n}", param="n")
