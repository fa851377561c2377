"""Dialogues from the hand-written set: small programs in three languages, and small talk."""

import random
import re
from functools import cache
from pathlib import Path

from chat import Dialogue
from words import SYSTEMS

LANGUAGES = {"python": "Python", "c": "C", "java": "Java"}
ASK = (
    "Write a {task} in {language}.", "Write {task} in {language}.", "Implement {task} in {language}.",
    "Show me {task} in {language}.", "Write a {language} implementation of {task}.",
    "How do I write {task} in {language}?", "Code a {task} in {language}.",
    "Give me {language} code for {task}.", "{task} in {language}", "write a {task} in {language}",
    "{language} {task}",
)  # fmt: skip
AGAIN = (
    "Now the same in {language}.",
    "And in {language}?",
    "Translate it to {language}.",
    "Rewrite it in {language}.",
    "Now in {language}.",
)


@cache
def programs() -> dict[str, dict[str, str]]:
    """Task to language to code."""
    text = (Path(__file__).parent / "handmade.md").read_text().split("\n# Small talk\n")[0]
    tasks = {}
    for section in text.split("\n## ")[1:]:
        tasks[section.split("\n")[0]] = dict(re.findall(r"^```(\w+)\n(.*?)\n```$", section, re.M | re.S))
    return tasks


@cache
def small_talk() -> list[tuple[list[str], str]]:
    """Openers and the reply to any of them."""
    text = (Path(__file__).parent / "handmade.md").read_text().split("\n# Small talk\n")[1]
    pairs = re.findall(r"^> (.*)\n\n(.*)$", text, re.M)
    return [(openers.split(" | "), reply) for openers, reply in pairs]


def handmade(rng: random.Random) -> Dialogue:
    """One or two requests of the hand-written set."""
    if rng.random() < 0.15:
        dialogue = Dialogue("small talk")
        openers, reply = rng.choice(small_talk())
        dialogue.user(rng.choice(openers))
        dialogue.answer(reply)
        return dialogue
    dialogue = Dialogue("program")
    if rng.random() < 0.3:
        dialogue.messages.append({"role": "system", "content": rng.choice(SYSTEMS)})
    task = rng.choice(list(programs()))
    languages = rng.sample(list(LANGUAGES), rng.choice((1, 1, 2)))
    for turn, language in enumerate(languages):
        template = rng.choice(AGAIN if turn else ASK)
        dialogue.user(template.format(task=task, language=LANGUAGES[language]))
        dialogue.answer(f"```{language}\n{programs()[task][language]}\n```")
    return dialogue
