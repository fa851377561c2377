"""Leaving out the oldest turns of a conversation that does not fit."""

from __future__ import annotations

from foretoken.server.chat import ChatBody
from foretoken.server.service import Service
from foretoken.server.turn import prompt_of


async def fitting(service: Service, body: ChatBody, owner: str) -> ChatBody:
    """The conversation with as few turns left out as the context demands; the system message and the last turn stay."""
    n_ctx = service.properties.n_ctx
    # Room for the answer, if it asks for no more than half of the context.
    room = n_ctx - min(body.n_wanted or n_ctx // 4, n_ctx // 2)
    starts = [at for at, message in enumerate(body.messages) if message.role == "user"]
    first = 1 if body.messages[0].role == "system" else 0
    cuts = [first, *(at for at in starts if at > first)]
    low, high = 0, len(cuts) - 1
    while low < high:
        middle = (low + high) // 2
        if len((await prompt_of(service, _without(body, first, cuts[middle]), owner))[1]) <= room:
            high = middle
        else:
            low = middle + 1
    return _without(body, first, cuts[low])


def _without(body: ChatBody, first: int, cut: int) -> ChatBody:
    return body.model_copy(update={"messages": [*body.messages[:first], *body.messages[cut:]]})
