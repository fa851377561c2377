"""Whoever has something for the engine's thread is heard, whether that thread sleeps or computes."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator

import pytest

from foretoken.engine.inbox import Inbox

SECONDS = 20.0


class Letters:
    """A source whose orders are bytes in a pipe."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.end, self.mouth = os.pipe()
        self.heard = b""
        self.n_takes = 0

    def fileno(self) -> int:
        return self.end

    def take(self) -> bool:
        self.n_takes += 1
        data = os.read(self.end, 4096)
        self.heard += data
        return bool(data)


@pytest.fixture
def letters() -> Iterator[Letters]:
    inbox = Inbox()
    source = Letters(inbox)
    inbox.attend(source)
    yield source
    inbox.close()
    os.close(source.end)


def later(action: object, seconds: float = 0.1) -> threading.Timer:
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def test_nothing_is_waited_for_while_there_is_something_to_compute(letters: Letters) -> None:
    assert list(letters.inbox.take(wait=False)) == []
    assert letters.n_takes == 0


def test_an_order_wakes_a_sleeping_thread(letters: Letters) -> None:
    later(lambda: os.write(letters.mouth, b"go"))
    started = time.monotonic()
    assert list(letters.inbox.take(wait=True)) == []
    assert letters.heard == b"go"
    assert time.monotonic() - started > 0.05


def test_a_command_wakes_a_sleeping_thread(letters: Letters) -> None:
    done: list[int] = []
    later(lambda: letters.inbox.put(lambda: done.append(1)))
    for command in letters.inbox.take(wait=True):
        command()
    assert done == [1]
    assert letters.n_takes == 0


def test_what_an_order_gives_rise_to_is_there_at_once(letters: Letters) -> None:
    done: list[bytes] = []
    take = letters.take

    def obey() -> bool:
        letters.inbox.put(lambda: done.append(letters.heard))
        return take()

    letters.take = obey  # type: ignore[method-assign]
    os.write(letters.mouth, b"x")
    for command in letters.inbox.take(wait=True):
        command()
    assert done == [b"x"]


def test_a_source_that_is_over_is_not_looked_at_again(letters: Letters) -> None:
    os.close(letters.mouth)
    list(letters.inbox.take(wait=True))
    assert letters.n_takes == 1
    later(lambda: letters.inbox.put(lambda: None))
    assert len(list(letters.inbox.take(wait=True))) == 1
    assert letters.n_takes == 1


@pytest.mark.parametrize("with_source", [True, False])
def test_no_command_is_lost_or_late(with_source: bool, letters: Letters) -> None:
    inbox = letters.inbox if with_source else Inbox()
    n_threads, n_each, done = 4, 500, []

    def send(number: int) -> None:
        rng = random.Random(number)
        for i in range(n_each):
            inbox.put(lambda name=(number, i): done.append(name))
            if rng.random() < 0.3:
                time.sleep(rng.random() * 2e-4)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(n_threads)]
    for thread in threads:
        thread.start()
    # One that never came would keep the last wait from ending: somebody rings then, and the count is wrong.
    alarm = later(lambda: inbox.put(lambda: done.append("alarm")), SECONDS)
    while len(done) < n_threads * n_each:
        for command in inbox.take(wait=True):
            command()
    alarm.cancel()
    for thread in threads:
        thread.join()
    assert "alarm" not in done
    for number in range(n_threads):
        assert [i for who, i in done if who == number] == list(range(n_each))
