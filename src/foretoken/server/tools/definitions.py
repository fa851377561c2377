"""Tools as a client offers them, and what it says about calling them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from foretoken.errors import InvalidRequest

MAX_TOOLS = 256

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/-]{1,128}$")]


class FunctionBody(BaseModel):
    """A function: its name, what it is for, and the JSON schema of its arguments."""

    model_config = ConfigDict(extra="ignore")

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolBody(BaseModel):
    """One tool of `tools`."""

    model_config = ConfigDict(extra="ignore")

    type: str = "function"
    function: FunctionBody | None = None


@dataclass(frozen=True, slots=True)
class ToolDef:
    """A tool that may be called."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool = False

    def for_template(self) -> dict[str, Any]:
        """The tool as templates list it."""
        described = {} if self.description is None else {"description": self.description}
        return {"type": "function", "function": {"name": self.name, **described, "parameters": self.parameters}}


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Which tools one answer may call, and whether it must."""

    offered: tuple[ToolDef, ...] = ()
    """What the model is told about."""
    callable: tuple[ToolDef, ...] = ()
    """What it may call of that."""
    required: bool = False
    several: bool = True

    @property
    def constrained(self) -> bool:
        """Whether the answer must be held to a grammar, or may be left to the model."""
        return bool(self.callable) and (self.required or not self.several or any(tool.strict for tool in self.callable))


def tool_use(tools: Sequence[ToolBody] | None, choice: Any, parallel: bool | None) -> ToolUse:
    """What `tools`, `tool_choice` and `parallel_tool_calls` say together."""
    offered = tuple(_definition(tool) for tool in tools or [])
    names = [tool.name for tool in offered]
    if len(set(names)) < len(names):
        raise InvalidRequest(f"tools: {next(name for name in names if names.count(name) > 1)} is there twice")
    mode, chosen = _choice(choice)
    if not offered and (mode == "required" or chosen):
        raise InvalidRequest("tool_choice: there are no tools to choose from")
    if mode == "none":
        return ToolUse(offered)
    for name in chosen or ():
        if name not in names:
            raise InvalidRequest(f"tool_choice: there is no tool named {name}")
    allowed = offered if chosen is None else tuple(tool for tool in offered if tool.name in chosen)
    named = mode == "named"
    return ToolUse(offered, allowed, named or mode == "required", parallel is not False and not named)


def _definition(tool: ToolBody) -> ToolDef:
    if tool.type != "function":
        raise InvalidRequest(f"tools: {tool.type!r} is not supported; offer functions")
    function = tool.function
    if function is None:
        raise InvalidRequest("tools: a tool needs a function with a name")
    if function.parameters is None:
        return ToolDef(function.name, function.description, strict=bool(function.strict))
    return ToolDef(function.name, function.description, function.parameters, bool(function.strict))


def _choice(value: Any) -> tuple[Literal["auto", "none", "required", "named"], tuple[str, ...] | None]:
    """A mode, and the names it is about; None is all of them."""
    if value in (None, "auto"):
        return "auto", None
    if value == "none":
        return "none", None
    if value in ("required", "any"):
        return "required", None
    if isinstance(value, dict):
        if value.get("type") == "function":
            return "named", (_name(value),)
        allowed = value.get("allowed_tools")
        if value.get("type") == "allowed_tools" and isinstance(allowed, dict):
            listed = allowed.get("tools")
            names = tuple(_name(tool) for tool in (listed if isinstance(listed, list) else []))
            if names:
                return "required" if allowed.get("mode") == "required" else "auto", names
    raise InvalidRequest('tool_choice: say auto, none, required, or {"type": "function", "function": {"name": ...}}')


def _name(value: Any) -> str:
    function = value.get("function") if isinstance(value, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise InvalidRequest("tool_choice: a tool is chosen by the name of its function")
    return name
