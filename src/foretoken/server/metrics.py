"""What Prometheus reads: llama.cpp's names where it has them, ours beside them."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from foretoken.server.record import Record
from foretoken.types import Finish
from foretoken.worker.supervisor import Supervisor

_CACHE_TEXT = {
    "host_bytes": "Bytes of states kept on the host.",
    "host_budget_bytes": "What --cache-ram allows.",
    "host_states": "States and attention cells kept on the host.",
    "host_evicted": "Entries that had to leave the host.",
    "restored_tokens": "Tokens that were brought back instead of read again.",
    "copy_seconds": "Time the engine spent on copying states to the host.",
    "disk_bytes": "Bytes of files with states.",
    "disk_budget_bytes": "What --cache-disk allows.",
    "disk_states": "Files with states.",
    "disk_evicted": "Files that had to go.",
    "disk_read": "Files that were read.",
    "disk_read_seconds": "Time spent on reading them.",
}
_COUNTED = ("host_evicted", "restored_tokens", "copy_seconds", "disk_evicted", "disk_read", "disk_read_seconds")
_CACHE = {name: CounterMetricFamily if name in _COUNTED else GaugeMetricFamily for name in _CACHE_TEXT}
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """Counts what was answered; reads the worker's state when asked."""

    def __init__(self, worker: Supervisor) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(name, text, labels, registry=registry)

        self._prompt = counter("llamacpp:prompt_tokens", "Number of prompt tokens processed.")
        self._prompt_seconds = counter("llamacpp:prompt_seconds", "Prompt process time in seconds.")
        self._predicted = counter("llamacpp:tokens_predicted", "Number of generation tokens processed.")
        self._predicted_seconds = counter("llamacpp:tokens_predicted_seconds", "Predict process time in seconds.")
        self._drafted = counter("llamacpp:spec_decode_num_draft_tokens", "Total draft tokens verified.")
        self._accepted = counter("llamacpp:spec_decode_num_accepted_tokens", "Total draft tokens accepted.")
        self._drafts = counter("llamacpp:spec_decode_num_drafts", "Total drafts verified.")
        self._at = counter(
            "llamacpp:spec_decode_num_accepted_tokens_per_pos", "Accepted tokens by position.", ("position",)
        )
        self._most = Gauge("llamacpp:n_tokens_max", "Largest context seen.", registry=registry)
        self._n_most = 0
        self._prompt_cached = counter("llamacpp:prompt_tokens_cached", "Number of prompt tokens reused from the cache.")
        self._cached = counter("foretoken:cached_tokens", "Prompt tokens that were still in memory.")
        self._replayed = counter("foretoken:replayed_tokens", "Tokens decoded again after a rewind.")
        self._by_drafter = counter("foretoken:drafter_tokens", "Draft tokens by drafter.", ("drafter", "fate"))
        self._requests = counter("foretoken:requests", "HTTP requests answered.", ("path", "status"))
        self._seconds = Histogram(
            "foretoken:request_seconds", "From the request to the end of its answer.", ["path"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._first = Histogram(
            "foretoken:first_token_seconds", "From the request to its first token.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        registry.register(_State(worker, self))

    def finished(self, finish: Finish) -> None:
        """One choice is over."""
        usage = finish.usage
        self._prompt.inc(usage.prompt_tokens - usage.cached_tokens)
        self._prompt_seconds.inc(usage.prompt_ms / 1e3)
        self._predicted.inc(usage.completion_tokens)
        self._predicted_seconds.inc(usage.generation_ms / 1e3)
        self._cached.inc(usage.cached_tokens)
        self._prompt_cached.inc(usage.cached_tokens)
        self._replayed.inc(usage.replayed)
        self._drafted.inc(usage.drafted)
        self._accepted.inc(usage.accepted)
        self._n_most = max(self._n_most, usage.prompt_tokens + usage.completion_tokens)
        self._most.set(self._n_most)
        for name, drafter in usage.drafters.items():
            self._drafts.inc(drafter.drafts_verified)
            self._by_drafter.labels(name, "accepted").inc(drafter.accepted)
            self._by_drafter.labels(name, "rejected").inc(drafter.verified - drafter.accepted)
            self._by_drafter.labels(name, "unverified").inc(drafter.offered - drafter.verified)
            for position, n in enumerate(drafter.accepted_at):
                self._at.labels(str(position)).inc(n)

    def answered(self, record: Record, path: str) -> None:
        """One HTTP request is over; `path` is the route, not what the client made of it."""
        self._requests.labels(path, str(record.status)).inc()
        if record.finishes:
            self._seconds.labels(path).observe(record.seconds)
        if record.first_token is not None:
            self._first.observe(record.first_token - record.started)

    @property
    def rates(self) -> tuple[float, float]:
        """Tokens per second since the start, of prompts and of answers."""
        pairs = ((self._prompt, self._prompt_seconds), (self._predicted, self._predicted_seconds))
        read, said = (_value(tokens) / (_value(seconds) or 1.0) for tokens, seconds in pairs)
        return read, said

    def text(self) -> bytes:
        return generate_latest(self._registry)


def _value(counter: Counter) -> float:
    return float(next(iter(counter.collect())).samples[0].value)


class _State(Collector):
    """What is not counted but asked for."""

    def __init__(self, worker: Supervisor, metrics: Metrics) -> None:
        self._worker = worker
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        worker = self._worker
        read, said = self._metrics.rates
        yield GaugeMetricFamily("llamacpp:requests_processing", "Number of requests processing.", worker.n_running)
        yield GaugeMetricFamily("llamacpp:requests_deferred", "Number of requests deferred.", worker.n_waiting)
        yield GaugeMetricFamily("llamacpp:prompt_tokens_seconds", "Average prompt throughput in tokens/s.", read)
        yield GaugeMetricFamily("llamacpp:predicted_tokens_seconds", "Average generation throughput in tokens/s.", said)
        busy = worker.n_busy / max(1, worker.n_decodes)
        yield GaugeMetricFamily("llamacpp:n_busy_slots_per_decode", "Average number of busy slots per decode.", busy)
        yield CounterMetricFamily("llamacpp:n_decode", "Total number of decode calls.", worker.n_decodes)
        for name, value in worker.cache.items():
            yield _CACHE[name](f"foretoken:cache_{name}", _CACHE_TEXT[name], value)
        yield GaugeMetricFamily("foretoken:worker_up", "Whether the engine can answer.", worker.state == "ready")
        yield GaugeMetricFamily("foretoken:worker_restarts", "Starts after a death.", worker.n_restarts)
