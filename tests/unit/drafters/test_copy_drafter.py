"""An answer that repeats a text with changes: the copy drafter keeps its place."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from foretoken.bench.drafters import Pieces, Stream, insert, rename, replace, simulate, source, streams
from foretoken.speculation.base import Draft, DraftAsk
from foretoken.speculation.drafters.copy import CopyDrafter
from foretoken.speculation.drafters.ngram_simple import NgramSimpleDrafter

TEXT = '''\
import os
import sys


def load_config(path, strict=False):
    """Read the settings of a project."""
    with open(path) as handle:
        config = parse(handle.read())
    if strict and not config:
        raise ValueError("no settings in " + path)
    return config


def merge(left, right):
    """Let the right settings win."""
    result = dict(left)
    for key, value in right.items():
        result[key] = value
    return result


def save_config(path, config):
    """Write the settings of a project."""
    with open(path, "w") as handle:
        for key in sorted(config):
            handle.write(key + " = " + str(config[key]) + "\\n")
    return len(config)


def main():
    config = load_config(sys.argv[1])
    config = merge(config, load_config(os.environ["DEFAULTS"], strict=True))
    save_config(sys.argv[1], config)
'''


def stream(changed: str, text: str = TEXT) -> Stream:
    pieces = Pieces()
    prompt = pieces.encode("Change this file:\n```python\n" + text + "```\n")
    return Stream("test", prompt, pieces.encode("Sure:\n```python\n" + changed))


def steps_after_edit(changed: str) -> float:
    """Steps beyond those for the text as it is."""
    return simulate(CopyDrafter(), stream(changed))["steps"] - simulate(CopyDrafter(), stream(TEXT))["steps"]


def ask_at(changed: str, mark: str, n_max: int = 8) -> tuple[Draft, Stream, int]:
    """Follow the changed text step by step to the end of `mark`, and ask there."""
    pieces = Pieces()
    prompt = pieces.encode("Change this file:\n```python\n" + TEXT + "```\n")
    answer = pieces.encode("Sure:\n```python\n" + changed)
    upto = len(pieces.encode("Sure:\n```python\n" + changed[: changed.index(mark) + len(mark)]))
    drafter = CopyDrafter()
    tokens = list(prompt)
    drafter.begin(0, tokens, "a")
    for token in answer[:upto]:
        tokens.append(token)
        draft = drafter.draft([DraftAsk(0, tokens, n_max)])[0]
    return draft, Stream("", prompt, answer), upto


def test_copies_the_text_as_it_is() -> None:
    done = simulate(CopyDrafter(), stream(TEXT))
    assert done["accepted"] / done["steps"] > 15


@pytest.mark.parametrize(
    ("edit", "budget"),
    [
        (lambda text: text.replace("import sys\n", "import sys\nimport json\n"), 4),
        (lambda text: text.replace('    """Let the right settings win."""\n', ""), 2),
        (lambda text: re.sub(r"def merge.*?(?=def save)", "", text, flags=re.DOTALL), 3),
        (lambda text: text.replace("strict=False", "strict=True"), 3),
        (lambda text: text.replace("dict(left)", "copy(left)"), 3),
        (lambda text: text.replace("len(config)", "0"), 4),
        (lambda text: text.replace("return result\n", "return freeze(result, deep=True)\n"), 9),
    ],
    ids=["insert a line", "delete a line", "delete a function", "constant", "one word", "shorter", "longer"],
)
def test_one_edit_costs_few_steps(edit: Callable[[str], str], budget: int) -> None:
    changed = edit(TEXT)
    assert changed != TEXT
    assert steps_after_edit(changed) <= budget


def test_resumes_right_after_an_insertion() -> None:
    changed = TEXT.replace("    result = dict(left)\n", "    check(left)\n    result = dict(left)\n")
    draft, known, at = ask_at(changed, "check(left)\n    result = ")
    assert draft.tokens == tuple(known.answer[at : at + 8])


def test_resumes_right_after_a_deletion() -> None:
    changed = re.sub(r"def merge.*?(?=def save)", "", TEXT, flags=re.DOTALL)
    draft, known, at = ask_at(changed, "\n\ndef save")
    assert draft.tokens == tuple(known.answer[at : at + 8])


def test_guesses_that_one_token_replaced_one() -> None:
    changed = TEXT.replace("strict=False", "strict=None")
    draft, known, at = ask_at(changed, "strict=None")
    assert draft.tokens == tuple(known.answer[at : at + 8])
    assert draft.confidence[0] < 0.5 < draft.confidence[-1]


def test_a_rename_is_learnt_once_and_applied_from_then_on() -> None:
    changed = re.sub(r"\bconfig\b", "options", TEXT)
    draft, known, at = ask_at(changed, "raise ValueError(", n_max=30)
    assert draft.tokens == tuple(known.answer[at : at + 30])
    many = simulate(CopyDrafter(), stream(changed))
    assert many["steps"] < simulate(NgramSimpleDrafter(size_n=3), stream(changed))["steps"] * 0.7


def test_a_longer_name_is_learnt_too() -> None:
    changed = TEXT.replace("config", "project_settings")
    assert steps_after_edit(changed) < TEXT.count("config")


def test_a_word_that_mostly_stays_is_not_replaced() -> None:
    changed = TEXT.replace("return config\n", "return settings\n", 1)
    draft, known, at = ask_at(changed, "return settings\n\n\ndef merge", n_max=64)
    assert draft.tokens[:40] == tuple(known.answer[at : at + 40])


def test_an_addition_is_applied_where_it_was_made_before() -> None:
    calls = "".join(f"    log({name}, 1)\n    total += step_{name}\n" for name in "abcdefghijkl")
    changed = calls.replace("log(", "log.info(")
    done = simulate(CopyDrafter(), stream(changed, calls))
    assert done["steps"] < 25


def test_short_matches_far_away_are_not_trusted() -> None:
    pieces = Pieces()
    prompt = pieces.encode(TEXT)
    drafter = CopyDrafter()
    drafter.begin(0, prompt, "a")
    answer = pieces.encode("Nothing here comes from there (and so on)")
    assert all(
        draft.confidence[0] < 0.6
        for n in range(1, len(answer))
        if (draft := drafter.draft([DraftAsk(0, prompt + answer[:n], 8)])[0])
    )


def test_finds_its_place_when_other_drafters_were_faster() -> None:
    known = stream(TEXT.replace("left", "first"))
    drafter, tokens = CopyDrafter(), list(known.prompt)
    drafter.begin(0, tokens, "a")
    right = 0
    for at in range(0, len(known.answer) - 20, 13):
        tokens[len(known.prompt) :] = known.answer[:at]
        draft = drafter.draft([DraftAsk(0, tokens, 4)])[0]
        right += draft.tokens == tuple(known.answer[at : at + 4])
    assert right > 0.7 * (len(known.answer) / 13)


@pytest.mark.parametrize("change", [rename, insert, replace])
def test_beats_plain_lookup_on_real_sources(change: Callable[[str, random.Random], str]) -> None:
    pieces = Pieces()
    text = source("shlex.py")
    known = Stream("", pieces.encode(text), pieces.encode(change(text, random.Random(3))))
    copied, looked_up = (simulate(kind(), known)["steps"] for kind in (CopyDrafter, NgramSimpleDrafter))
    assert copied < looked_up


def test_of_two_versions_it_follows_the_later_one() -> None:
    second = re.sub(r"\bconfig\b", "options", TEXT)
    third = second.replace("strict=False", "strict=None")
    pieces = Pieces()
    prompt = pieces.encode("File:\n" + TEXT + "\nAnswer:\n" + second + "\nOnce more:\n")
    done = simulate(CopyDrafter(), Stream("", prompt, pieces.encode("Sure:\n" + third)))
    assert done["steps"] < 18


def test_is_about_as_sure_as_it_is_right() -> None:
    known = [known for known in streams(["shlex.py", "sched.py"]) if known.name in ("rename", "mixed", "moved")]
    done = [simulate(CopyDrafter(), each) for each in known]
    accepted, expected = (sum(each[key] for each in done) for key in ("accepted", "expected"))
    assert 0.75 < expected / accepted < 1.25


def test_stops_where_the_text_ends() -> None:
    drafter = CopyDrafter()
    prompt = list(range(100))
    drafter.begin(0, prompt, "a")
    assert drafter.draft([DraftAsk(0, [*prompt, *range(90, 97)], 8)])[0].tokens == (97, 98, 99)
    assert len(drafter.draft([DraftAsk(0, [*prompt, *range(90, 100)], 8)])[0]) == 0
    assert len(drafter.draft([DraftAsk(0, [*prompt, *range(90, 100), 5, 6, 7], 3)])[0]) == 3


def test_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="n_max"):
        CopyDrafter(n_max=0)
