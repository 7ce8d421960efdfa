"""What an agent may ask a workspace by MCP: tools, entities as resources, one prompt.

Every tool answers in the JSON of the command line, and says the same in a few lines for the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from inspect import signature
from typing import Annotated, Any

from anyio import Semaphore
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import (
    MCPServerError,
    ResourceError,
    ToolError,
    UnexpectedResourceError,
    UnexpectedToolError,
)
from mcp.server.mcpserver.resources import ResourceSecurity
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolResult, TextContent, ToolAnnotations
from pydantic import Field, ValidationError

from kglink.errors import KglinkError, UnknownNameError, UsageError
from kglink.text.printable import printable_json
from kglink.workspace import Workspace
from kglink.workspace.link import found_shape
from kglink_cli.console import counted
from kglink_doors.serve.errors import (
    Real,
    Whole,
    crash_shape,
    error_shape,
    first_error,
    refuse_many_places,
)

#: The methods of `Tools` that agents may call.
TOOLS = ("link_text", "resolve", "search_entities", "entity", "counterparts", "explain", "list_kbs")
#: Those that read texts: so many of them work at once, and more would only slow each other. A call
#: whose client goes while it waits for its turn is never begun.
READERS, AT_WORK = frozenset({"link_text", "resolve", "search_entities", "explain"}), 2
#: No tool reads longer texts; an agent sends them part by part.
MOST_CHARACTERS = 20_000
#: Entities of one search, and values of one list of an entity, such as its children.
MOST_FOUND, MOST_LISTED = 50, 100

INSTRUCTIONS = """
Looks up what words mean in the user's own knowledge bases (KBs). An entity is named KB:KEY. Use
link_text for a text, search_entities for a name or a description, entity and counterparts for an
id. NIL means that no KB has it: say so, and invent no id.
"""
PROMPT = """
Call link_text with the text below. Then give the text again, each linked mention followed by its
id in brackets, such as heron [birds:h]. Mark nothing that the tool leaves out or calls NIL.

{text}
"""

Text = Annotated[
    str,
    Field(min_length=1, max_length=MOST_CHARACTERS, description="Plain text, exactly as it is."),
]
Name = Annotated[str, Field(min_length=1, max_length=1_000)]
Id = Annotated[Name, Field(description="An entity as KB:KEY, such as doid:DOID:1485.")]
Names = Annotated[tuple[Name, ...], Field(max_length=100)]
KBs = Annotated[Names, Field(description="Only these KBs, by the names of list_kbs. Empty: all.")]
Types = Annotated[Names, Field(description="Only entities of these types. Empty: all.")]
Under = Annotated[Names, Field(description="Only these entities, KB:KEY, and those below them.")]
NotUnder = Annotated[Names, Field(description="Neither these, KB:KEY, nor those below them.")]
Threshold = Annotated[
    Real | None,
    Field(ge=0, le=1, description="Least confidence of a link. Leave it out for the fitted one."),
]
Options = dict[str, Any]
Answer = Annotated[CallToolResult, Options]


@contextmanager
def _plain_errors(kind: type[Exception]) -> Iterator[None]:
    """Replace an error of the SDK by what was wrong behind it, with the fix."""
    try:
        yield
    except kind as error:
        causes = list(_causes(error))
        refused = [one for one in causes if isinstance(one, (KglinkError, ValidationError))]
        if refused:
            raise kind(_told(_refusal(refused[0]))) from error
        if isinstance(error, (UnexpectedToolError, UnexpectedResourceError)):  # the SDK logs these
            raise type(error)(_told(crash_shape(causes[0])[1])) from error
        raise


def _causes(error: BaseException) -> Iterator[Exception]:
    """What led to an error of the SDK, the nearest first."""
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, Exception) and not isinstance(cause, MCPServerError):
            yield cause
        cause = cause.__cause__


def _refusal(error: KglinkError | ValidationError) -> Mapping[str, str]:
    if isinstance(error, KglinkError):
        return error_shape(error)
    is_long = error.errors()[0]["type"] == "string_too_long"
    return {
        "error": first_error(error),  # of the arguments
        "fix": "Send it in parts." if is_long else "The tool's schema says what it takes.",
    }


def _told(shape: Mapping[str, str]) -> str:
    return f"{shape['error']}\nFix: {shape['fix']}" if shape["fix"] else shape["error"]


class KglinkServer(MCPServer[Any]):
    """A server whose errors say what kglink refused, and whose readers take turns."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._turns = Semaphore(AT_WORK)

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool; an argument that it does not have is refused."""
        with _plain_errors(ToolError):
            if name in TOOLS:
                _, *known = signature(getattr(Tools, name)).parameters
                for one in arguments:
                    if one not in known:
                        unknown = UnknownNameError(f"argument of {name}", one, known)
                        raise ToolError(unknown.message) from unknown
            async with self._turns if name in READERS else nullcontext():
                return await super().call_tool(name, arguments, context)

    async def read_resource(self, *arguments: Any, **options: Any) -> Any:
        """Read a resource."""
        with _plain_errors(ResourceError):
            return await super().read_resource(*arguments, **options)

    async def get_prompt(self, *arguments: Any, **options: Any) -> Any:
        """Get a prompt."""
        try:
            return await super().get_prompt(*arguments, **options)
        except ValueError as error:  # an unknown one, or what it needs is missing
            raise MCPError(INVALID_PARAMS, str(error)) from error


def make_server(workspace: Workspace) -> KglinkServer:
    """The server of a workspace."""
    server = KglinkServer(
        "kglink", instructions=INSTRUCTIONS, version=version("kglink"), log_level="WARNING"
    )
    tools = Tools(workspace)
    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    for name in TOOLS:
        server.add_tool(getattr(tools, name), annotations=hints)
    keys = ResourceSecurity(exempt_params={"key"})  # it is looked up, and is no path
    path, kind = "kglink://entity/{kb}/{+key}", "application/json"
    server.resource(path, mime_type=kind, security=keys)(tools.entity_resource)
    server.prompt()(mark_entities)
    return server


def mark_entities(text: str) -> str:
    """Mark in a text which entities of the knowledge bases it speaks of."""
    return PROMPT.format(text=text)


class Tools:
    """The tools; the docstring of each is what the model reads."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def link_text(
        self,
        text: Text,
        kbs: KBs = (),
        types: Types = (),
        under: Under = (),
        not_under: NotUnder = (),
        threshold: Threshold = None,
    ) -> Answer:
        """Find the mentions in a text, and the entity that each means.

        Answers the place, entity and confidence of each mention, the other candidates, and what
        the other KBs call the same thing ("also").
        """
        limits: Options = {"kbs": kbs, "types": types, "under": under, "not_under": not_under}
        (document,) = self._workspace.link(text, **limits, threshold=threshold, wait=False)
        links, lines = document.in_order, []
        for link in links:
            chosen = link.chosen
            also = f"; also {', '.join(map(str, chosen.also))}" if chosen and chosen.also else ""
            means = f"{chosen.id} ({chosen.title})" if chosen else "NIL"
            place = f"[{link.start}:{link.end}] {link.surface}"
            lines.append(f"{place} = {means}, {link.confidence:.2f} sure{also}")
        linked = sum(link.chosen is not None for link in links)
        head = f"{counted(len(links), 'mention')}, {linked} linked, {len(links) - linked} NIL"
        shape = document.as_json(rejected=self._workspace.settings.link.rejected)
        return _answer(_cut(shape), head, lines[:MOST_LISTED])

    def resolve(
        self,
        name: Annotated[Name, Field(description="A name, without running text.")],
        context: Annotated[
            str,
            Field(max_length=MOST_CHARACTERS, description="What else is known of it, in words."),
        ] = "",
        kbs: KBs = (),
        types: Types = (),
        under: Under = (),
        not_under: NotUnder = (),
        threshold: Threshold = None,
    ) -> Answer:
        """Decide which entity a name means, if any: a match, ambiguous, or new.

        Use it before you store something, so that one thing gets one id. Merge only a match; of an
        ambiguous name ask, or keep the candidates; a new name is a thing that no KB has.
        """
        limits: Options = {"kbs": kbs, "types": types, "under": under, "not_under": not_under}
        about = context or None
        (found,) = self._workspace.resolve(name, about, **limits, threshold=threshold, wait=False)
        if found is None:
            raise UsageError("the name is empty", hint="Give a name in letters or digits.")
        lines = (f"{one.id} {one.title}" for one in found.candidates)
        why = "; ".join(found.why)
        head = f"{found.name}: {found.status}, {found.probability:.2f} probable; {why}"
        return _answer(found.as_json(), head + self._names_alone(kbs), lines)

    def search_entities(
        self,
        query: Annotated[Text, Field(description="A name, or a description in words.")],
        kbs: KBs = (),
        types: Types = (),
        under: Under = (),
        not_under: NotUnder = (),
        k: Annotated[Whole, Field(ge=1, le=MOST_FOUND, description="How many.")] = 10,
    ) -> Answer:
        """Find entities by a name or by a description, best first.

        Use it to get the id of a thing that you know by name. A score says nothing by itself: read
        titles and descriptions before you choose.
        """
        limits: Options = {"kbs": kbs, "types": types, "under": under, "not_under": not_under}
        found = self._workspace.search(query, k=k, **limits, wait=False)
        facts = self._workspace.store.get_entities([one.id for one in found])
        described = {key: known.description for key, known in facts.items()}
        lines = (f"{one.id} {one.title}: {described.get(one.id, '')[:100]}" for one in found)
        head = f"{counted(len(found), 'entity')}, best first" if found else "no entity is like that"
        shape = {"entities": found_shape(found, facts)}
        return _answer(shape, head + self._names_alone(kbs), lines)

    def _names_alone(self, kbs: KBs) -> str:
        """Says which KBs are searched by their names alone."""
        space = self._workspace.space()
        alone = self._workspace.names_alone(space, self._workspace.linked_kbs(space, kbs))
        return f"; {', '.join(alone.kbs)}: by names alone until `kglink build`" if alone else ""

    def entity(self, id: Id) -> Answer:  # noqa: A002 - the name that the model writes
        """All that is known of an entity.

        Its names, description, type, parents and children, what other KBs call it, and how
        annotated texts use it. Long lists are cut; "cut" says how long they are.
        """
        view = self._workspace.entity(id)
        return _answer(_cut(view.as_json()), f"{view.id} {view.entity.title}", (
            view.entity.description[:1_000],
            "also called: " + "; ".join(one.surface for one in view.entity.aliases[:12]),
            "same as: " + ", ".join(str(one.id) for one in view.counterparts),
        ))  # fmt: skip

    def counterparts(self, id: Id) -> Answer:  # noqa: A002 - the name that the model writes
        """What other KBs call an entity: ids, how probable that is, and what a reviewer said."""
        view = self._workspace.entity(id, examples=0)
        said = [one.as_json() for one in view.counterparts]
        lines = (f"{one.id} {one.title}: {one.probability:.2f}" for one in view.counterparts)
        head = f"{view.id} {view.entity.title}: {counted(len(said), 'counterpart')}"
        return _answer({**view.id._asdict(), "counterparts": said}, head, lines)

    def explain(
        self,
        text: Text,
        surface: Annotated[Name, Field(description="The words of the mention, as in the text.")],
        kbs: KBs = (),
        types: Types = (),
        under: Under = (),
        not_under: NotUnder = (),
        threshold: Threshold = None,
    ) -> Answer:
        """Why a mention is linked as it is: candidates with their evidence, and what decided.

        Use it to check an answer that surprises, or that is not sure.
        """
        refuse_many_places(text, surface, "Send only the sentences that matter.")
        options: Options = {"kbs": kbs, "types": types, "under": under, "not_under": not_under}
        options |= {"surface": surface, "threshold": threshold}
        found = self._workspace.explain(text, **options, wait=False)
        shape = _cut({"mentions": [one.as_json() for one in found]})
        lines = (
            "\n".join([f"[{link.start}:{link.end}] {link.surface}", *one.verdict()])
            for one in found[:MOST_LISTED]
            if (link := one.link)
        )
        return _answer(shape, counted(len(found), "mention"), lines)

    def list_kbs(self) -> Answer:
        """The knowledge bases of this workspace: names, and how much each holds."""
        kbs = self._workspace.kbs()
        shapes = [info.as_json() for info in kbs]
        for one in shapes:  # these name files of this machine
            del one["source"], one["options"]
        lines = (f"{info.name}: {counted(info.entities, 'entity')}" for info in kbs)
        return _answer({"kbs": shapes}, counted(len(kbs), "KB"), lines)

    def entity_resource(self, kb: str, key: str) -> str:
        """All that is known of an entity, as JSON."""
        return printable_json(_cut(self._workspace.entity(f"{kb}:{key}").as_json()))


def _answer(shape: Mapping[str, object], head: str, lines: Iterable[str]) -> CallToolResult:
    """The whole answer for programs, and a few lines for the model."""
    content: list[Any] = [TextContent(type="text", text="\n".join([head, *lines]))]
    return CallToolResult(content=content, structured_content=dict(shape))


def _cut(shape: dict[str, Any]) -> dict[str, Any]:
    """The shape with long lists cut, and the lengths of these."""
    lists = {name: value for name, value in shape.items() if isinstance(value, list)}
    long = {name: len(value) for name, value in lists.items() if len(value) > MOST_LISTED}
    cut = {name: shape[name][:MOST_LISTED] for name in long}
    return {**shape, **cut, "cut": long} if long else shape
