"""Has model servers load and unload LoRA adapters, in the words that each engine knows.

vLLM: ``POST /v1/load_lora_adapter`` with ``lora_name`` and ``lora_path``, ``/v1/unload_lora_adapter``; what
is loaded stands in ``/v1/models`` with a ``parent``. SGLang: the same without ``/v1``; what is loaded is
part of every answer, and a request asks for an adapter as ``MODEL:NAME``. SageMaker's containers: ``POST
/adapters`` with ``name`` and ``src``, ``DELETE /adapters/NAME``; those for vLLM and SGLang read a JSON body,
LMI reads the query, so both are sent. llama.cpp: adapters are given when the server starts (``--lora``) and
chosen by number in a request's body; nothing can be loaded into it and no request can name one, so it is
refused.

Whether an engine said "it is loaded already" is known by its words only: all answer 400.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, assert_never
from urllib.parse import quote, urlencode

import msgspec

from warmroute.adapters.engine_http import Answer, ask
from warmroute.controlplane.ports import AdapterAnswer, AdapterOutcome, InstanceFact
from warmroute.core import limits
from warmroute.core.ids import InstanceId
from warmroute.core.machines import AdapterRoutes

_PROBES: Final = (
    # vLLM's own routes come before the /adapters that its SageMaker containers add: fewer layers between.
    (AdapterRoutes.VLLM, "/v1/load_lora_adapter"),
    (AdapterRoutes.SGLANG, "/load_lora_adapter"),
    (AdapterRoutes.SAGEMAKER, "/adapters"),
    (AdapterRoutes.LLAMA_CPP, "/lora-adapters"),
)
_THERE: Final = frozenset({200, 405})
"""What a GET of one of these routes is answered with where it exists: most take POST alone."""
_NO_ROUTES: Final = (
    "The model server has no route to load adapters by. vLLM needs --enable-lora and "
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING=true; SGLang needs --enable-lora; others need POST /adapters."
)
_LLAMA_CPP: Final = (
    "llama.cpp takes adapters only when it starts (--lora), and no request can name one: make one component "
    "per adapter, with the adapter in its image's command."
)
_NONE: Final = 'The image takes no adapters (adapters = "none").'
_MEMORY_MAX: Final = 10_000


class HttpAdapterLoader:
    """Implements ``controlplane.ports.AdapterLoader``."""

    def __init__(
        self, *, load_s: float = limits.ADAPTER_LOAD_S, unload_s: float = limits.ADAPTER_UNLOAD_S
    ) -> None:
        """Prepare.

        Args:
            load_s: Bound of one load, in seconds.
            unload_s: Bound of one unload, likewise.
        """
        self._load_s = load_s
        self._unload_s = unload_s
        self._context = ssl.create_default_context()
        self._found: dict[tuple[InstanceId, int], AdapterRoutes] = {}

    async def load(self, fact: InstanceFact, routes: AdapterRoutes, *, name: str, path: str) -> AdapterAnswer:
        """Load an adapter; one of the same name from another path is unloaded before."""
        try:
            spoken = await self._spoken(fact, routes)
            if isinstance(spoken, AdapterAnswer):
                return spoken
            told = await self._load_anew(fact, spoken, name, path)
            return replace(told, after_base=spoken is AdapterRoutes.SGLANG)
        except (OSError, ValueError) as error:  # a time-out is an OSError
            return _unclear(error, self._load_s)

    async def _load_anew(
        self, fact: InstanceFact, routes: AdapterRoutes, name: str, path: str
    ) -> AdapterAnswer:
        answer = await self._load(fact, routes, name, path)
        if not _says_loaded(answer, name):
            return _outcome(answer)
        known = await self._listed(fact, routes) or {}
        if known.get(name) == path:
            return _DONE
        gone = await self._unload(fact, routes, name)
        if gone.outcome is not AdapterOutcome.DONE:
            return gone
        return _outcome(await self._load(fact, routes, name, path))

    async def unload(self, fact: InstanceFact, routes: AdapterRoutes, *, name: str) -> AdapterAnswer:
        """Unload an adapter; one that is not loaded is done."""
        try:
            spoken = await self._spoken(fact, routes)
            if isinstance(spoken, AdapterAnswer):
                return spoken
            return await self._unload(fact, spoken, name)
        except (OSError, ValueError) as error:
            return _unclear(error, self._unload_s)

    async def loaded(self, fact: InstanceFact, routes: AdapterRoutes) -> Mapping[str, str] | None:
        """Return what is loaded; None when the server does not say, or cannot be asked."""
        try:
            spoken = await self._spoken(fact, routes)
            return None if isinstance(spoken, AdapterAnswer) else await self._listed(fact, spoken)
        except (OSError, ValueError):
            return None

    async def _spoken(self, fact: InstanceFact, routes: AdapterRoutes) -> AdapterRoutes | AdapterAnswer:
        """Return which routes a server has, or why there is nothing to be asked."""
        if routes is AdapterRoutes.AUTO:
            routes = await self._find(fact)
        match routes:
            case AdapterRoutes.VLLM | AdapterRoutes.SGLANG | AdapterRoutes.SAGEMAKER:
                return routes
            case AdapterRoutes.LLAMA_CPP:
                return AdapterAnswer(AdapterOutcome.REFUSED, _LLAMA_CPP)
            case AdapterRoutes.NONE:
                return AdapterAnswer(AdapterOutcome.REFUSED, _NONE)
            case AdapterRoutes.AUTO:
                return AdapterAnswer(AdapterOutcome.REFUSED, _NO_ROUTES)
            case _:
                assert_never(routes)

    async def _find(self, fact: InstanceFact) -> AdapterRoutes:
        """Return the first routes that the server has; AUTO for none, which is asked again the next time."""
        key = (fact.instance_id, fact.generation)
        if key in self._found:
            return self._found[key]
        for routes, target in _PROBES:
            answer = await self._ask(fact, "GET", target, within_s=limits.ADAPTER_ASK_S)
            if answer.status in _THERE:
                if len(self._found) >= _MEMORY_MAX:
                    self._found.clear()
                self._found[key] = routes
                return routes
        return AdapterRoutes.AUTO

    async def _load(self, fact: InstanceFact, routes: AdapterRoutes, name: str, path: str) -> Answer:
        body: dict[str, Any] = {"lora_name": name, "lora_path": path}
        target = "/v1/load_lora_adapter" if routes is AdapterRoutes.VLLM else "/load_lora_adapter"
        if routes is AdapterRoutes.SAGEMAKER:
            body = {"name": name, "src": path, "preload": True}
            target = "/adapters?" + urlencode({"name": name, "src": path, "preload": "true"})
        return await self._ask(fact, "POST", target, msgspec.json.encode(body), within_s=self._load_s)

    async def _unload(self, fact: InstanceFact, routes: AdapterRoutes, name: str) -> AdapterAnswer:
        method, target, body = "POST", "/unload_lora_adapter", msgspec.json.encode({"lora_name": name})
        if routes is AdapterRoutes.VLLM:
            target = "/v1/unload_lora_adapter"
        elif routes is AdapterRoutes.SAGEMAKER:
            method, target, body = "DELETE", f"/adapters/{quote(name, safe='')}", b""
        answer = await self._ask(fact, method, target, body, within_s=self._unload_s)
        return _DONE if _says_absent(answer) else _outcome(answer)

    async def _listed(self, fact: InstanceFact, routes: AdapterRoutes) -> dict[str, str] | None:
        if routes is AdapterRoutes.SAGEMAKER:
            answer = await self._ask(fact, "GET", "/adapters", within_s=limits.ADAPTER_ASK_S)
            listed = _adapters_in(answer, "adapters", "name", "src")
            if listed is not None:
                return listed
        answer = await self._ask(fact, "GET", "/v1/models", within_s=limits.ADAPTER_ASK_S)
        return _adapters_in(answer, "data", "id", "root")

    async def _ask(
        self, fact: InstanceFact, method: str, target: str, body: bytes = b"", *, within_s: float
    ) -> Answer:
        async with asyncio.timeout(within_s):
            return await ask(
                fact,
                target,
                context=self._context,
                bytes_max=limits.ADAPTER_BODY_BYTES_MAX,
                method=method,
                body=body,
                agent="warmroute-adapters",
            )


_DONE: Final = AdapterAnswer(AdapterOutcome.DONE)


def _outcome(answer: Answer) -> AdapterAnswer:
    """Return what an answer means that is neither "loaded already" nor "not loaded"."""
    if answer.status == 200 and not _failed(answer):
        return _DONE
    detail = f"{_words(answer)} (HTTP {answer.status})"
    # A server that is loading, overloaded or behind a proxy may do it the next time.
    trouble = answer.status in {408, 425, 429, 502, 503, 504}
    return AdapterAnswer(AdapterOutcome.UNCLEAR if trouble else AdapterOutcome.REFUSED, detail)


def _unclear(error: Exception, within_s: float) -> AdapterAnswer:
    why = f"It did not answer within {within_s:g} s." if isinstance(error, TimeoutError) else str(error)
    return AdapterAnswer(AdapterOutcome.UNCLEAR, f"The model server gave no answer: {why}")


def _failed(answer: Answer) -> bool:
    """Whether a 200 says inside that it failed, as SGLang's ``success`` does."""
    said = _json(answer)
    return isinstance(said, dict) and said.get("success") is False


def _says_loaded(answer: Answer, name: str) -> bool:
    """Whether a load was refused because an adapter of this name is there already."""
    if answer.status == 200 and not _failed(answer):
        return False
    said = _json(answer)
    if isinstance(said, dict) and name in (said.get("loaded_adapters") or ()):
        return True
    words = _words(answer).lower()
    known = ("loaded", "registered", "exist")
    return (
        answer.status in {200, 400, 409, 500} and "already" in words and any(word in words for word in known)
    )


def _says_absent(answer: Answer) -> bool:
    """Whether an unload was refused because there is no adapter of this name."""
    if answer.status == 200 and not _failed(answer):
        return False
    said = _json(answer)
    if said == {"detail": "Not Found"}:  # the route itself is missing
        return False
    words = _words(answer).lower()
    known = ("cannot be found", "not found", "not registered", "does not exist", "not loaded", "isn't loaded")
    return answer.status in {200, 400, 404, 424, 500} and any(word in words for word in known)


def _words(answer: Answer) -> str:
    """Return what a server said in its error, at most ``ADAPTER_DETAIL_CHARACTERS_MAX``."""
    said = _json(answer)
    text: Any = None
    if isinstance(said, dict):
        error = said.get("error", said)
        text = error
        if isinstance(error, dict):
            keys = ("message", "error_message", "detail", "status", "msg")
            text = next((error[key] for key in keys if error.get(key)), None)
    if not isinstance(text, str):
        text = answer.text(limits.ADAPTER_DETAIL_CHARACTERS_MAX)
    return text[: limits.ADAPTER_DETAIL_CHARACTERS_MAX].strip() or "It gave no reason."


def _adapters_in(answer: Answer, member: str, name: str, path: str) -> dict[str, str] | None:
    """Return the adapters of a list; None when it is none. In a list of models they have a parent."""
    said = _json(answer) if answer.status == 200 else None
    entries = said.get(member) if isinstance(said, dict) else None
    if not isinstance(entries, list):
        return None
    return {
        str(entry[name]): str(entry.get(path) or "")
        for entry in entries
        if isinstance(entry, dict) and name in entry and (member != "data" or entry.get("parent"))
    }


def _json(answer: Answer) -> Any:
    try:
        return msgspec.json.decode(bytes(answer.body))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
