"""What a restart in the middle of a session costs the next turn: killed, started again on the same folder, asked."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from foretoken.bench.agent_session import Session
from foretoken.bench.serving import Ours
from foretoken.bench.turns import TurnCost, ask, client_of
from foretoken.config import EngineConfig

TURNS = (3, 6, 9, 12, 15, 18)
"""Before which the server is killed."""
_DISK = 4 << 30
_SETTLE_SECONDS = 2.0
"""For files to be written, and for a server's counters to be read."""
_READ = re.compile(r"^foretoken:cache_disk_read_seconds_total (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Restart:
    """One turn on a server that went on, and on one that was killed and started again before it."""

    title: str
    n_running: int
    """Prompt tokens computed."""
    n_restarted: int
    running_ms: float
    """To the first token."""
    restarted_ms: float
    read_ms: float
    """Of reading files and proving their checksums."""

    @property
    def ratio(self) -> float:
        """Of the times to the first token, without the reading."""
        return (self.restarted_ms - self.read_ms) / self.running_ms


def n_steps(turns: Sequence[int] = TURNS) -> int:
    return 2 * (max(turns) + 1)


def measure(
    config: EngineConfig, session: Session, n_predict: int, say: Callable[[str], None], turns: Sequence[int] = TURNS
) -> list[Restart]:
    """The session on a server that goes on, then on one that is killed now and then."""
    played = replace(session, turns=session.turns[: max(turns) + 1])
    going_on = _run(config, played, n_predict, say, ())
    killed = _run(config, played, n_predict, say, turns)
    return [
        Restart(
            going_on[n][0].title, going_on[n][0].n_processed, killed[n][0].n_processed, going_on[n][0].first_ms,
            killed[n][0].first_ms, killed[n][1],
        )
        for n in turns
    ]  # fmt: skip


def _run(
    config: EngineConfig, session: Session, n_predict: int, say: Callable[[str], None], kills: Sequence[int]
) -> list[tuple[TurnCost, float]]:
    """What every turn cost, and how long the disk was read for it."""
    found = []
    with TemporaryDirectory() as folder, ExitStack() as stack:
        cache = replace(config.cache, n_disk_bytes=_DISK, folder=Path(folder))
        ours = Ours(replace(config, cache=cache))
        client, kill = stack.enter_context(_started(ours))
        for number, turn in enumerate(session.turns):
            say(f"{turn.title}{' after a restart' if number in kills else ''}")
            if number in kills:
                time.sleep(_SETTLE_SECONDS)
                kill()
                stack.close()
                client, kill = stack.enter_context(_started(ours))
            cost = ask(client, session, turn, 0, n_predict)
            found.append((cost, _read_ms(client) if number in kills else 0.0))
    return found


@contextmanager
def _started(ours: Ours) -> Iterator[tuple[httpx.Client, Callable[[], None]]]:
    with ours.running() as (address, kill), client_of(address) as client:
        yield client, kill


def _read_ms(client: httpx.Client) -> float:
    """How long a server that has just been started has read kept states."""
    time.sleep(_SETTLE_SECONDS)
    said = _READ.search(client.get("/metrics").text)
    return float(said[1]) * 1e3 if said else 0.0
