"""The way of a request: route, caller, endpoint, key, and then an exchange.

A request is read once here; every later stage gets exactly the value it needs.
"""

import secrets
from collections.abc import Callable
from random import Random
from sys import maxsize

import msgspec

from warmroute.auth.principals import ANONYMOUS, Authenticator
from warmroute.core.decision import NEW_SESSION, Refusal
from warmroute.core.errors import Failure, Problem
from warmroute.core.events import Invocation
from warmroute.core.fleet import Fleet
from warmroute.dataplane.asking import native_request, openai_request
from warmroute.dataplane.awaiting import AdapterWaits, is_cold
from warmroute.dataplane.desk import Desk
from warmroute.dataplane.dialects import Native, NativeStream, OpenAI
from warmroute.dataplane.exchange import Exchange
from warmroute.dataplane.finding import Found, find, invocable
from warmroute.dataplane.passage import ControlPassage
from warmroute.dataplane.plan import Plan
from warmroute.dataplane.ports import Downstream, Underway
from warmroute.dataplane.routes import Route, RouteKind, match, speaks_openai
from warmroute.dataplane.sessions import Sessions
from warmroute.dataplane.shadow import Shadows
from warmroute.dataplane.telling import Place, refused
from warmroute.routing.router import Router, VariantBook
from warmroute.wire import awsjson, chat, http1, invocation, openai_errors, texts
from warmroute.wire.chat import OpenAIRequest
from warmroute.wire.http1 import Request
from warmroute.wire.sigv4 import SCALING_SERVICES, SERVICES, SignedRequest

COMPONENT = b"x-amzn-sagemaker-inference-component"
EXPLAIN = b"x-warmroute-explain"
"""Header that asks for a decision receipt."""
ROUTES_TOLD = (
    "POST /endpoints/NAME/invocations, POST /endpoints/NAME/invocations-response-stream, "
    "POST /endpoints/NAME/openai/v1/chat/completions, "
    "POST /endpoints/NAME/inference-components/COMPONENT/openai/v1/chat/completions, "
    "POST /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses or /v1/messages, "
    "GET /v1/models, POST / with X-Amz-Target"
)


_Answer = Callable[[Request, Route, Invocation, Downstream], Underway | Failure | None]


class Gateway:
    """Answers requests.

    Args:
        desk: What exchanges work with.
        authenticator: Who may call until the first fleet says so; without it, anybody.

    Attributes:
        waits: Invocations that wait for their adapters.
        shadows: Copies for shadow variants.
    """

    def __init__(self, desk: Desk, authenticator: Authenticator | None = None) -> None:
        self._desk = desk
        self._place = Place(region="us-east-1", account="000000000000", endpoint="")
        self._authenticator = authenticator or Authenticator((), (), "us-east-1")
        self._request_ids = _id_prefix()
        self._count = secrets.randbits(40)
        self._places: dict[tuple[str, str], Place] = {}
        self._sessions = Sessions(desk.router, desk.clock)
        self.waits = AdapterWaits(desk)
        self.shadows = Shadows(desk, Random())  # noqa: S311  (which invocations are copied)
        self._characters_max = 0
        self._answers: dict[str, _Answer] = {
            RouteKind.NATIVE.value: self._native,
            RouteKind.NATIVE_STREAM.value: self._native,
            RouteKind.ENDPOINT_OPENAI.value: self._endpoint_openai,
            RouteKind.PLAIN_OPENAI.value: self._plain_openai,
            RouteKind.CONTROL.value: self._control,
            RouteKind.MODELS.value: self._models,
            RouteKind.HEALTHZ.value: self._healthz,
            RouteKind.READYZ.value: self._readyz,
        }

    def apply_fleet(self, fleet: Fleet) -> bool:
        """Replace the fleet between two decisions; False for one that is not newer."""
        if not self._desk.router.apply_fleet(fleet):
            return False
        self._place = Place(region=fleet.region, account=fleet.account, endpoint="")
        self._places.clear()
        self._characters_max = _characters_max(self._desk.router)
        self._authenticator = Authenticator(fleet.access_keys, fleet.api_keys, fleet.region)
        self._sessions.secret = fleet.session_key
        self._desk.forget_targets_but(set(self._desk.router.targets()))
        self.waits.look(fleet.account)
        return True

    # --- before a request is whole ------------------------------------------------------------
    def reject(self, path: str, failure: Failure, downstream: Downstream) -> None:
        """Answer a request that cannot be read, in the dialect its path promises; the connection ends."""
        record = self._record("unreadable", 0)
        self._fail(record, failure, downstream, path=path, openai=speaks_openai(path), close=True)

    # --- a whole request ----------------------------------------------------------------------
    def receive(self, request: Request, downstream: Downstream) -> Underway | None:
        """Answer a request now, or start its exchange.

        Returns:
            What to tell of the client's doings until `Downstream.finish` is called; None when the
            answer is complete already.
        """
        route = match(request.path)
        record = self._record(route.name if route else "unknown", len(request.body))
        outcome = self._answer(request, route, record, downstream)
        if isinstance(outcome, Failure):
            self._fail(
                record,
                outcome,
                downstream,
                path=request.path,
                openai=route.openai if route else speaks_openai(request.path),
                close=not request.keep_alive,
                bare=request.method == "HEAD",
            )
            return None
        return outcome

    def _answer(
        self, request: Request, route: Route | None, record: Invocation, downstream: Downstream
    ) -> Underway | Failure | None:
        if route is None:
            text = f"There is no {request.method} {request.path}. There is: {ROUTES_TOLD}."
            return Failure(Problem.NOT_FOUND, text)
        if request.method != route.method and (request.method, route.method) != ("HEAD", "GET"):
            text = f"{request.path} takes {route.method}, not {request.method}."
            return Failure(Problem.METHOD_NOT_ALLOWED, text)
        return self._answers[route.name](request, route, record, downstream)

    def _native(
        self, request: Request, route: Route, record: Invocation, downstream: Downstream
    ) -> Underway | Failure | None:
        principal = self._caller(request)
        if isinstance(principal, Failure):
            return principal
        record.principal = principal
        streaming = route.streaming
        read = invocation.read(request.headers, streaming)
        if isinstance(read, Failure):
            return read
        endpoint = route.endpoint or ""
        call = None if read.session_id is None else self._sessions.call(endpoint, read.session_id)
        if isinstance(call, Refusal):
            return refused(call, Place(self._place.region, self._place.account, endpoint), None)
        session = ""
        if call is not None:
            session = call.session_id
            record.session = "new" if session == NEW_SESSION else "resumed"
            read.upstream = call.upstream(read.upstream)
        found = find(
            self._desk.router, self._place.account, endpoint, component=read.inference_component,
            target_variant=read.target_variant, session=session,
        )  # fmt: skip
        if isinstance(found, Failure):
            return found
        asked = native_request(
            found.book, request.body, prefix_aware_id=read.prefix_aware_id or "", component=found.component,
            adapter=found.adapter, session=session,
        )  # fmt: skip
        place = self._place_of(found)
        kind = NativeStream if streaming else Native
        plan = Plan(
            place=place,
            body=request.body,
            dialect=kind(request=read, request_id=record.request_id, place=place),
            request=asked,
            first_byte_ns=self._desk.first_byte_native_ns,
            total_ns=self._desk.native_stream_total_ns if streaming else None,
            explain=EXPLAIN in request.headers,
            session=call,
        )
        return self._start(request, found.book, plan, record, downstream)

    def _endpoint_openai(
        self, request: Request, route: Route, record: Invocation, downstream: Downstream
    ) -> Underway | Failure | None:
        authorization = request.headers.get(b"authorization")
        principal = self._authenticator.openai(authorization, self._desk.clock.wall_s())
        if isinstance(principal, Failure):
            return principal
        record.principal = principal
        if COMPONENT in request.headers:
            return texts.component_header_not_allowed()
        router, account = self._desk.router, self._place.account
        found = find(router, account, route.endpoint or "", component=route.component)
        if isinstance(found, Failure):
            return found
        assert route.body_kind is not None, "OpenAI routes say how to read their bodies"
        wanted = len(request.body) if found.book.wants_chain else found.book.prefix_length
        read = chat.read(request.body, route.body_kind, wanted)
        if isinstance(read, Failure):
            return read
        return self._openai(request, route, record, downstream, found=found, read=read)

    def _plain_openai(
        self, request: Request, route: Route, record: Invocation, downstream: Downstream
    ) -> Underway | Failure | None:
        principal = self._authenticator.plain(request.headers, self._desk.clock.wall_s())
        if isinstance(principal, Failure):
            return principal
        record.principal = principal
        assert route.body_kind is not None, "OpenAI routes say how to read their bodies"
        # Only the body says for which endpoint it is: it is read once, as far as any of them wants.
        read = chat.read(request.body, route.body_kind, min(self._characters_max, len(request.body)))
        if isinstance(read, Failure):
            return read
        if not read.model:
            told = f"on this route it names the endpoint: {self._endpoints_told()}"
            return Failure(Problem.BAD_REQUEST, f"The member 'model' is missing or empty; {told}.")
        name, _, component = read.model.partition("/")
        found = find(self._desk.router, self._place.account, name, component=component or None)
        if isinstance(found, Failure):
            return found
        return self._openai(request, route, record, downstream, found=found, read=read)

    def _openai(
        self,
        request: Request,
        route: Route,
        record: Invocation,
        downstream: Downstream,
        *,
        found: Found,
        read: OpenAIRequest,
    ) -> Underway | None:
        place = self._place_of(found)
        plain = route.endpoint is None
        assert route.body_kind is not None, "OpenAI routes say how to read their bodies"
        dialect = OpenAI(
            fields=request.fields,
            headers=request.headers,
            request_id=record.request_id,
            kind=route.body_kind,
            quotes_errors=not plain,
            place=place,
        )
        plan = Plan(
            place=place,
            body=request.body,
            dialect=dialect,
            request=openai_request(
                found.book, read, names_endpoint=plain, component=found.component, adapter=found.adapter
            ),
            first_byte_ns=self._desk.first_byte_openai_ns,
            path=route.upstream_path,
            names_model=plain,
            explain=EXPLAIN in request.headers,
        )
        return self._start(request, found.book, plan, record, downstream)

    def _start(
        self, request: Request, book: VariantBook, plan: Plan, record: Invocation, downstream: Downstream
    ) -> Underway | None:
        record.endpoint = book.endpoint
        record.variant = book.name
        asked = plan.request
        if asked.component:
            record.component = asked.component
            record.adapter = asked.adapter
        exchange = Exchange(
            desk=self._desk,
            book=book,
            plan=plan,
            downstream=downstream,
            record=record,
            keep_alive=request.keep_alive,
            chunks_allowed=request.chunks_allowed,
        )
        if record.adapter:
            plan.adapter_loaded = not is_cold(book, asked.component, asked.adapter)
            if not plan.adapter_loaded and (wait := self.waits.begin(exchange, book, plan)) is not None:
                plan.adapter_loaded = True
                return None if exchange.over else wait
        exchange.start()
        if exchange.over:
            return None
        if book.shadow is not None:
            self.shadows.copy(book, plan)
        return exchange

    def _control(
        self, request: Request, route: Route, record: Invocation, downstream: Downstream
    ) -> Underway | Failure | None:
        del route
        scales = awsjson.scales(request.headers.get(b"x-amz-target"))
        principal = self._caller(request, SCALING_SERVICES if scales else SERVICES)
        if isinstance(principal, Failure):
            return principal
        record.principal = principal
        passage = ControlPassage(desk=self._desk, request=request, downstream=downstream, record=record)
        passage.start()
        return passage

    # --- answered here ------------------------------------------------------------------------
    def _models(
        self, request: Request, route: Route, record: Invocation, downstream: Downstream
    ) -> Failure | None:
        del route, record
        principal = self._authenticator.plain(request.headers, self._desk.clock.wall_s())
        if isinstance(principal, Failure):
            return principal
        _send(request, downstream, 200, b"application/json", model_list(invocable(self._desk.router)))
        return None

    def _healthz(self, request: Request, route: Route, record: Invocation, downstream: Downstream) -> None:
        del route, record
        _send(request, downstream, 200, b"text/plain", b"ok\n")

    def _readyz(self, request: Request, route: Route, record: Invocation, downstream: Downstream) -> None:
        del route, record
        ready = any(
            endpoint.in_service and any(book.candidates for book in endpoint.variants.values())
            for endpoint in self._desk.router.endpoints.values()
        )
        text = b"ready\n" if ready else b"no endpoint is in service\n"
        _send(request, downstream, 200 if ready else 503, b"text/plain", text)

    # --- looking up ---------------------------------------------------------------------------
    def _caller(self, request: Request, services: frozenset[str] = SERVICES) -> str | Failure:
        """Return the principal of a signed call."""
        if not self._authenticator.required:
            return ANONYMOUS
        signed = SignedRequest(request.method, request.path, request.query, request.headers, request.body)
        return self._authenticator.native(signed, self._desk.clock.wall_s(), services)

    def _place_of(self, found: Found) -> Place:
        at = (found.book.endpoint, found.component)
        place = self._places.get(at)
        if place is None:
            place = Place(self._place.region, self._place.account, found.book.endpoint, found.component)
            self._places[at] = place
        return place

    def _endpoints_told(self) -> str:
        names = [name for name, _ in invocable(self._desk.router)]
        if not names:
            return "there is none yet"
        return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")

    # --- small parts --------------------------------------------------------------------------
    def _record(self, route: str, bytes_in: int) -> Invocation:
        self._count = (self._count + 1) & 0xFFFFFFFFFFFF
        return Invocation(
            request_id=f"{self._request_ids}{self._count:012x}",
            route=route,
            started_ns=self._desk.clock.now_ns(),
            bytes_in=bytes_in,
        )

    def _fail(
        self, record: Invocation, failure: Failure, downstream: Downstream, *, path: str, openai: bool,
        close: bool, bare: bool = False,
    ) -> None:  # fmt: skip
        """Answer with a failure from before any attempt; ``bare`` leaves the body out, as HEAD wants it."""
        if openai:
            status, fields, body = openai_errors.error(failure, record.request_id)
        elif path == "/":
            # The SageMaker API: boto3 reads its errors' codes from the body alone.
            status, fields, body = awsjson.failure(failure)
            fields.append((b"x-amzn-RequestId", record.request_id.encode()))
        else:
            status, fields, body = invocation.error(
                failure,
                record.request_id,
                region=self._place.region,
                account=self._place.account,
                endpoint=record.endpoint,
            )
        fields = [*fields, (b"content-length", str(len(body)).encode())]
        if failure.problem is Problem.METHOD_NOT_ALLOWED and (route := match(path)) is not None:
            fields.append((b"allow", b"GET, HEAD" if route.method == "GET" else route.method.encode()))
        if close:
            fields.append((b"connection", b"close"))
        head = http1.response_head(status, fields)
        downstream.write(head if bare else head + body)
        record.status = status
        record.problem = failure.problem.value
        record.outcome = "rejected"
        record.ended_ns = self._desk.clock.now_ns()
        self._desk.observer.invocation_ended(record)
        downstream.finish(close=close)


def _characters_max(router: Router) -> int:
    """Return how many characters of a prompt some variant wants; without bound for a chain."""
    books = [book for endpoint in router.endpoints.values() for book in endpoint.variants.values()]
    return max((maxsize if book.wants_chain else book.prefix_length for book in books), default=0)


def model_list(invocable: list[tuple[str, str]]) -> bytes:
    """Return OpenAI's list of models: endpoints, and the components and adapters of others.

    Source: vLLM's list, which names an adapter's base as ``parent``.
    """
    models = [
        {"id": name, "object": "model", "created": 0, "owned_by": "warmroute"}
        | ({"parent": parent} if parent else {})
        for name, parent in invocable
    ]
    return msgspec.json.encode({"object": "list", "data": models})


def _send(request: Request, downstream: Downstream, status: int, content_type: bytes, body: bytes) -> None:
    fields = [(b"content-type", content_type), (b"content-length", str(len(body)).encode())]
    if not request.keep_alive:
        fields.append((b"connection", b"close"))
    head = http1.response_head(status, fields)
    downstream.write(head if request.method == "HEAD" else head + body)
    downstream.finish(close=not request.keep_alive)


def _id_prefix() -> str:
    """Return the start of this router's request ids, which have the form of a UUID."""
    digits = secrets.token_hex(10)
    return f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15:18]}-"
