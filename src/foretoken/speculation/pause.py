"""When the drafters of a slot are asked again that had nothing useful to say for a while."""

from __future__ import annotations

from foretoken.speculation.acceptance import STREAKS

PATIENCE = 4
"""Vain asks in a row before waiting begins; one less for every request in a row to which no draft was of use."""
_LEAST_PATIENCE = -1
"""Then three steps are waited for after the first vain ask: an answer that copies shows it at its fifth token."""
_HOPELESS = 8
"""After so many requests in a row to which no draft was of use they are waited for before the first ask too."""
_HINT, _CLEAR_HINT = 1, 4
"""Runs in a row that must have stood in the text before, for it to be taken for a copy; and after those requests."""
DEAR = 0.05
"""The share of a step's time from which on asking tries patience twice as hard."""
SHARE = 0.002
"""What vain asking may take of the time of a step, in the long run, where nothing is won."""
LONGEST = 31
_LOOK_AROUND, _FAR_AROUND = 7, 15
"""Steps at least from one look whether the text repeats itself to the next, and as many as they become."""
_MORE = 5
"""How often a wait begins again as long as the text is nowhere like what stood in it before."""
PROMISING = tuple(n_right for n_right, _ in STREAKS[1:-1])
"""So many right tokens in a row, where drafters are believed more, end a wait before its time; so do twice as many as
were known at the last ask."""
_NEVER = 1 << 30


class Pause:
    """Waits twice as long after every vain ask, up to where asking costs next to nothing.

    Asking, and planning what to do with the answers, takes a tenth of a millisecond: beside a step of a small model
    that is the one thing that makes it slower, beside one of a large model it is nothing, and everybody is asked
    every time. What was offered at the last ask goes on being compared with what is said, which costs nothing: when
    it turns out right the wait is over.
    """

    def __init__(self, n_requests_in_vain: int = 0) -> None:
        self._patience = max(_LEAST_PATIENCE, PATIENCE - n_requests_in_vain)
        hopeless = n_requests_in_vain >= _HOPELESS
        wait = 3 if hopeless else 0
        self.n_vain = 0
        """How often in a row asking was in vain, up to a limit."""
        self.wait = wait
        """Steps to wait still."""
        self.length = wait
        """How many there were to be."""
        self._n_more = _MORE
        """How often the wait may begin again."""
        self._hint = _CLEAR_HINT if hopeless else _HINT
        self._wake = 0

    @property
    def lasts(self) -> bool:
        """Whether nobody need be asked for the next step."""
        return self.wait > 0

    def end(self) -> None:
        """A draft was of use."""
        self.n_vain = self.wait = self.length = 0
        self._hint = _HINT

    def asked_in_vain(
        self, n_right: int, spent_ms: float, step_ms: float, share: float = SHARE, n_slots: int = 1
    ) -> None:
        """No draft was of use, though the best drafter has been right so many times in a row.

        Asking may go on taking a `share` of the time. Where a drafter was right for long and its draft was declined,
        for others would have waited for it, that it goes on being right is no reason to ask again.
        """
        self.n_vain = min(self.n_vain + 1, PATIENCE + (LONGEST * n_slots).bit_length())
        patience = min(self._patience, PATIENCE // 2) if spent_ms > DEAR * step_ms else self._patience
        longest = min(LONGEST * n_slots, _bearable(spent_ms, step_ms, share))
        self.wait = self.length = min(2 ** max(0, self.n_vain - patience) - 1, longest)
        self._n_more = _MORE
        declined = n_slots > 1 and n_right >= PROMISING[-1]
        self._wake = _NEVER if declined else next((n for n in PROMISING if n > n_right), 2 * n_right)

    def hint(self, alone: bool) -> int:
        """Runs in a row of the text's end that must have stood in it before: the more, the more often that was of no
        use; twice as many where others would wait for the draft, for it must win more then."""
        return max(self._hint, self.n_vain * (1 if alone else 2))

    @property
    def listens(self) -> bool:
        """Whether something that was offered before could end the wait by being right."""
        return self._wake < _NEVER

    @property
    def may_go_on(self) -> bool:
        """Whether a wait that is over may begin again, if nothing speaks for asking."""
        return self.length > 0 and self._n_more > 0

    def go_on(self, alone: bool) -> None:
        """Wait as long again, and as long as a look around is worth: less every time, and less in company."""
        least, most = (_LOOK_AROUND, _FAR_AROUND) if alone else (_FAR_AROUND, LONGEST)
        self.length = max(self.length, min(2 * self.length + 1, most), least)
        self.wait, self._n_more = self.length, self._n_more - 1

    def put_off(self, step: int) -> None:
        """Others would wait longer than this slot could win: not now, however right what was offered goes on being."""
        self.wait = max(self.wait, self.length, LONGEST)
        self.align(step)
        self.length = self.wait
        self._wake = _NEVER

    def align(self, step: int) -> None:
        """End the wait, which begins after this step, where those of other slots end: asked together they take less.

        Waits end at multiples of their length, rounded up to a power of two, and so at those of shorter ones too.
        """
        period = 1 << self.wait.bit_length()
        earliest = step + period // 2
        self.wait = earliest + -earliest % period - step - 1 if self.wait else 0

    def heard(self, n_right: int) -> bool:
        """What was offered before has been right so many times in a row by now; whether that ends the wait."""
        if over := n_right >= self._wake:
            self.wait = self.length = 0
        return over

    def rested(self, n_steps: int) -> None:
        """Nobody was asked for so many steps."""
        self.wait = max(0, self.wait - n_steps)


def _bearable(spent_ms: float, step_ms: float, share: float) -> int:
    """Steps to wait for asking to take no more than its share."""
    return LONGEST if step_ms <= 0 else int(spent_ms / (share * step_ms))
