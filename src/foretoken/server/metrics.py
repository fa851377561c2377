"""What Prometheus reads: llama.cpp's names where it has them, ours beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics, generate_latest
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
_SUMS = {
    "llamacpp:prompt_tokens": "Number of prompt tokens processed.",
    "llamacpp:prompt_seconds": "Prompt process time in seconds.",
    "llamacpp:tokens_predicted": "Number of generation tokens processed.",
    "llamacpp:tokens_predicted_seconds": "Predict process time in seconds.",
    "llamacpp:spec_decode_num_draft_tokens": "Total draft tokens verified.",
    "llamacpp:spec_decode_num_accepted_tokens": "Total draft tokens accepted.",
    "llamacpp:spec_decode_num_drafts": "Total drafts verified.",
    "llamacpp:prompt_tokens_cached": "Number of prompt tokens reused from the cache.",
    "foretoken:cached_tokens": "Prompt tokens that were still in memory.",
    "foretoken:replayed_tokens": "Tokens decoded again after a rewind.",
}
_LABELLED = {
    "llamacpp:spec_decode_num_accepted_tokens_per_pos": ("Accepted tokens by position.", ("position",)),
    "foretoken:drafter_tokens": ("Draft tokens by drafter.", ("drafter", "fate")),
    "foretoken:requests": ("HTTP requests answered.", ("path", "status")),
}
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """Counts what was answered; reads the worker's state when asked.

    Sums are plain numbers until somebody asks: a counter of the library takes a lock and several calls for each.
    """

    def __init__(self, worker: Supervisor) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = registry = CollectorRegistry()
        self.sums = dict.fromkeys(_SUMS, 0.0)
        self.labelled: dict[str, dict[tuple[str, ...], float]] = {name: defaultdict(float) for name in _LABELLED}
        self.n_most = 0
        self._seconds = Histogram(
            "foretoken:request_seconds", "From the request to the end of its answer.", ["path"],
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self._seconds_of: dict[str, Histogram] = {}
        self._first = Histogram(
            "foretoken:first_token_seconds", "From the request to its first token.",
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        registry.register(_State(worker, self))

    def finished(self, finish: Finish) -> None:
        """One choice is over."""
        usage, sums = finish.usage, self.sums
        sums["llamacpp:prompt_tokens"] += usage.prompt_tokens - usage.cached_tokens
        sums["llamacpp:prompt_seconds"] += usage.prompt_ms / 1e3
        sums["llamacpp:tokens_predicted"] += usage.completion_tokens
        sums["llamacpp:tokens_predicted_seconds"] += usage.generation_ms / 1e3
        sums["foretoken:cached_tokens"] += usage.cached_tokens
        sums["llamacpp:prompt_tokens_cached"] += usage.cached_tokens
        sums["foretoken:replayed_tokens"] += usage.replayed
        sums["llamacpp:spec_decode_num_draft_tokens"] += usage.drafted
        sums["llamacpp:spec_decode_num_accepted_tokens"] += usage.accepted
        self.n_most = max(self.n_most, usage.prompt_tokens + usage.completion_tokens)
        by_drafter = self.labelled["foretoken:drafter_tokens"]
        at = self.labelled["llamacpp:spec_decode_num_accepted_tokens_per_pos"]
        for name, drafter in usage.drafters.items():
            sums["llamacpp:spec_decode_num_drafts"] += drafter.drafts_verified
            by_drafter[name, "accepted"] += drafter.accepted
            by_drafter[name, "rejected"] += drafter.verified - drafter.accepted
            by_drafter[name, "unverified"] += drafter.offered - drafter.verified
            for position, n in enumerate(drafter.accepted_at):
                at[str(position),] += n

    def answered(self, record: Record, path: str) -> None:
        """One HTTP request is over; `path` is the route, not what the client made of it."""
        self.labelled["foretoken:requests"][path, str(record.status)] += 1
        if record.finishes:
            if path not in self._seconds_of:
                self._seconds_of[path] = self._seconds.labels(path)
            self._seconds_of[path].observe(record.seconds)
        if record.first_token is not None:
            self._first.observe(record.first_token - record.started)

    @property
    def rates(self) -> tuple[float, float]:
        """Tokens per second since the start, of prompts and of answers."""
        sums = self.sums
        return (
            sums["llamacpp:prompt_tokens"] / (sums["llamacpp:prompt_seconds"] or 1.0),
            sums["llamacpp:tokens_predicted"] / (sums["llamacpp:tokens_predicted_seconds"] or 1.0),
        )

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _State(Collector):
    """What is put into the library's words only when it is asked for."""

    def __init__(self, worker: Supervisor, metrics: Metrics) -> None:
        self._worker = worker
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        yield from self._counted()
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

    def _counted(self) -> Iterable[Metric]:
        metrics = self._metrics
        for name, text in _SUMS.items():
            yield CounterMetricFamily(name, text, metrics.sums[name])
        for name, (text, labels) in _LABELLED.items():
            family = CounterMetricFamily(name, text, labels=labels)
            for values, value in metrics.labelled[name].items():
                family.add_metric(values, value)
            yield family
        yield GaugeMetricFamily("llamacpp:n_tokens_max", "Largest context seen.", metrics.n_most)
