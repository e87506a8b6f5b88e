"""An endpoint, planned again and again in a world that does what it is told."""

from itertools import count

from warmroute.core.machines import Image, InstanceType, ProviderKind
from warmroute.resources.instances import Observed
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.planner import plan, stamp
from warmroute.resources.records import Deployment, EndpointRecord
from warmroute.resources.world import Rules, World

RULES = Rules(
    instance_types={
        "local": InstanceType("local", ProviderKind.LOCAL, image="img"),
        "fixed": InstanceType("fixed", ProviderKind.STATIC),
    },
    images={"img": Image("img", startup_s_max=100.0)},
)
READY = Observed(running=True, probes=1, ready=True, open_leases=0)
LOADING = Observed(running=True, probes=1, failures=1, detail="503")
SICK = Observed(running=True, probes=9, failures=3, detail="500")
EXITED = Observed(running=False, detail="It ended.")


def world(now_s=0.0, **changes):
    """Return a world without servers, in which nothing is under way."""
    values = {
        "observed": {},
        "refused": {},
        "busy": frozenset(),
        "acked_version": 0,
        "since_s": 0.0,
        "new_id": lambda: "new",
    }
    return World(now_s=now_s, **values | changes)


class Life:
    """An endpoint, its instances and their servers."""

    def __init__(self, *variants, default=READY, rules=RULES):
        self.rules = rules
        self.endpoint = EndpointRecord(
            "ep", "arn", EndpointStatus.CREATING, 0.0, 0.0, pending=Deployment("c", variants, 0.0)
        )
        self.instances = ()
        self.servers = {}
        self.default = default
        self.refused = {}
        self.alarms = {}
        self.busy = frozenset()
        self.now_s = 0.0
        self.version = self.acked = 0
        self.acks = True
        self.ids = count(1)
        self.started = []

    def new_id(self):
        return f"i-{next(self.ids)}"

    def server_of(self, record):
        """Return how the server of a new instance is."""
        return self.default

    def world(self, **changes):
        values = {
            "observed": dict(self.servers),
            "refused": self.refused,
            "busy": self.busy,
            "acked_version": self.acked,
            "new_id": self.new_id,
            "alarms": self.alarms,
        }
        return world(self.now_s, **values | changes)

    def make_plan(self):
        return plan(self.endpoint, self.instances, self.world(), self.rules)

    def plan(self):
        """Make a plan and write it down; return it."""
        made = self.make_plan()
        self.version += 1
        if made.endpoint is None:
            self.endpoint, self.instances = None, ()
            return made
        self.endpoint, self.instances = stamp(made.endpoint, made.instances, self.version)
        if self.acks:
            self.acked = self.version
        return made

    def step(self, steps=1, seconds=0.0):
        """Plan, and do what was planned."""
        for _ in range(steps):
            self.now_s += seconds
            if self.endpoint is None:
                break
            made = self.plan()
            for record in made.start:
                self.started.append(record.instance_id)
                self.servers[record.instance_id] = self.server_of(record)
            for instance_id in made.stop:
                self.servers.pop(instance_id, None)
        return self
