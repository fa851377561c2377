"""What a slot holds, saved, restored and erased by hand: llama.cpp's POST /slots/N?action=..."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from foretoken.errors import InvalidRequest
from foretoken.server.bodies import Bodies, BodyRoute, described, read_body
from foretoken.server.errors import ApiError
from foretoken.server.respond import record_of
from foretoken.server.service import Service
from foretoken.server.sse import JsonAnswer
from foretoken.worker.messages import SlotAction, SlotDone

_MAX_NAME = 200
_SUFFIX = ".slot"
"""Of every file written here, so that nothing else in the folder is ever touched."""


class SlotBody(BaseModel):
    """The body of POST /slots/N; an erasure needs none."""

    model_config = ConfigDict(extra="ignore")

    filename: str | None = None


BODIES: Bodies = (SlotBody,)


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["llama.cpp"], route_class=BodyRoute)

    @routes.post("/slots/{number}", openapi_extra=described(SlotBody))
    async def act(http: HttpRequest) -> Response:
        return await _act(service, http)

    return routes


async def _act(service: Service, http: HttpRequest) -> Response:
    folder = service.settings.slot_save_path
    if folder is None:
        raise ApiError(501, "this server saves no slots; start it with --slot-save-path FOLDER")
    number, action = _number(http.path_params["number"]), _action(http.query_params.get("action"))
    path: Path | None = None
    if action != "erase":
        body = await read_body(http, service, SlotBody)
        path = folder / f"{_plain_name(body.filename)}{_SUFFIX}"
    done = await service.worker.act_on_slot(number, action, record_of(http).owner, path)
    if done is None:
        raise ApiError(503, "the engine is not ready", retry_after=1)
    if done.error is not None:
        raise ApiError(503, done.error, retry_after=1) if done.busy else ApiError(400, done.error)
    return JsonAnswer(_shape(number, action, path, done))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidRequest("a slot is named by its number")
    return int(text)


def _action(text: str | None) -> SlotAction:
    match text:
        case "save" | "restore" | "erase":
            return text
    raise InvalidRequest("action must be save, restore or erase")


def _plain_name(name: str | None) -> str:
    """A name that stays inside the folder, whatever it contains."""
    if not name:
        raise InvalidRequest("filename: name the file")
    plain = all(char.isalnum() or char in "._- " for char in name)
    if not plain or name.startswith(".") or len(name.encode()) > _MAX_NAME:
        raise InvalidRequest("filename: letters, digits, dots, dashes and spaces only, and no dot at the start")
    return name


def _shape(number: int, action: SlotAction, path: Path | None, done: SlotDone) -> dict[str, Any]:
    if action == "erase":
        return {"id_slot": number, "n_erased": done.n_tokens}
    verb, bytes_verb = ("saved", "written") if action == "save" else ("restored", "read")
    assert path is not None
    return {
        "id_slot": number,
        "filename": path.name.removesuffix(_SUFFIX),
        f"n_{verb}": done.n_tokens,
        f"n_{bytes_verb}": done.n_bytes,
        "timings": {f"{action}_ms": done.ms},
    }
