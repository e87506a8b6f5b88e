"""Random files applied one after the other to a server that does at once what it is told.

After every one, a second run has nothing to do; nothing is taken away that was made by hand or from
another file; and with ``--prune`` nothing of an earlier file is left.
"""

from hypothesis import given
from hypothesis import strategies as st

from warmroute.cli.api import Api
from warmroute.cli.apply.changes import MARK, Action
from warmroute.cli.apply.file import Wanted
from warmroute.cli.apply.plan import is_change, plan
from warmroute.cli.apply.run import carry_out, look
from warmroute.cli.failure import Refused
from warmroute.cli.server import Server

KINDS = {
    "Model": "ModelName",
    "EndpointConfig": "EndpointConfigName",
    "Endpoint": "EndpointName",
    "InferenceComponent": "InferenceComponentName",
}
SCALING = {
    "RegisterScalableTarget": ("ScalableTargets", ("ResourceId",)),
    "PutScalingPolicy": ("ScalingPolicies", ("ResourceId", "PolicyName")),
}


class FakeServer(Api):
    """Keeps requests and gives them back, as the API would."""

    def __init__(self):
        super().__init__(Server(endpoint_url="http://server:1", environment={}))
        self.kept = {kind: {} for kind in KINDS}
        self.tags = {}
        self.scaling = {"ScalableTargets": {}, "ScalingPolicies": {}, "ScheduledActions": {}}

    def call_service(self, service, operation, members=None):
        members = dict(members or {})
        if service == "AnyScaleFrontendService":
            return self.scale(operation, members)
        if operation in ("AddTags", "ListTags"):
            tags = self.tags[members["ResourceArn"]]
            tags |= {tag["Key"]: tag["Value"] for tag in members.get("Tags", ())}
            return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        if operation.startswith("List"):
            kind = operation.removeprefix("List").removesuffix("s")
            return {f"{kind}s": [{KINDS[kind]: name} for name in self.kept[kind]]}
        verb = next(one for one in ("Create", "Describe", "Update", "Delete") if operation.startswith(one))
        return self.one(verb, operation.removeprefix(verb), members)

    def scale(self, operation, members):
        if operation.startswith("Describe"):
            listed = operation.removeprefix("Describe")
            return {listed: list(self.scaling[listed].values())}
        if operation == "ListTagsForResource":
            return {"Tags": self.tags[members["ResourceARN"]]}
        if operation == "DeregisterScalableTarget":
            for kept in self.scaling.values():
                for key in [key for key in kept if key[0] == members["ResourceId"]]:
                    del kept[key]
            return {}
        listed, identity = SCALING[operation]
        own = {"CreationTime": 1.0}
        if listed == "ScalableTargets":
            arn = own["ScalableTargetARN"] = f"arn:{members['ResourceId']}"
            self.tags.setdefault(arn, {}).update(members.pop("Tags", {}))
        self.scaling[listed][tuple(members[name] for name in identity)] = members | own
        return {}

    def one(self, verb, kind, members):
        runtime = kind == "InferenceComponentRuntimeConfig"
        kind = "InferenceComponent" if runtime else kind
        kept, name = self.kept[kind], members[KINDS[kind]]
        arn = f"arn:{kind}/{name}"
        if verb == "Create":
            assert name not in kept, f"{kind} {name} is there"
            self.tags[arn] = {tag["Key"]: tag["Value"] for tag in members.pop("Tags", ())}
            assert kind != "Endpoint" or members["EndpointConfigName"] in self.kept["EndpointConfig"]
            kept[name] = members
            return {}
        if name not in kept:
            raise Refused("ValidationException", f'Could not find {kind} "{name}".')
        match verb:
            case "Delete":
                del kept[name]
            case "Update" if runtime:
                kept[name] = kept[name] | {"RuntimeConfig": members["DesiredRuntimeConfig"]}
            case "Update":
                assert kind != "Endpoint" or members["EndpointConfigName"] in self.kept["EndpointConfig"]
                kept[name] = kept[name] | members
            case _:
                return self.described(kind, name, arn)
        return {}

    def described(self, kind, name, arn):
        kept = self.kept[kind][name]
        if kind == "Endpoint":
            state = {
                "EndpointName": name,
                "EndpointArn": arn,
                "EndpointConfigName": kept["EndpointConfigName"],
                "EndpointStatus": "InService",
            }
            return {"Endpoint": state, "Variants": [], "Instances": []}
        own = {f"{kind}Arn": arn, "CreationTime": 1.0}
        if kind == "InferenceComponent":
            count = kept["RuntimeConfig"]["CopyCount"]
            runtime = {"DesiredCopyCount": count, "CurrentCopyCount": count}
            own |= {"InferenceComponentStatus": "InService", "RuntimeConfig": runtime, "VariantName": "v"}
        return kept | own


NAMES = st.sampled_from(("1", "11", "2", "21"))
NUMBERS = st.integers(1, 3)


@st.composite
def files(draw):
    """Return what one of two files may describe; names collide between the two."""
    own = draw(st.sampled_from(("one", "two")))
    prefix = own if draw(st.booleans()) else "shared"

    def names(kind):
        return sorted(f"{prefix}-{kind}{name}" for name in draw(st.sets(NAMES, max_size=3)))

    models = [{"ModelName": name, "PrimaryContainer": {"Image": str(draw(NUMBERS))}} for name in names("m")]
    endpoints, components, targets, policies = [], [], [], []
    for name in names("e"):
        variants = [
            {"VariantName": "v", "ModelName": one["ModelName"], "InitialInstanceCount": draw(NUMBERS)}
            for one in models[:1]
        ]
        config = {"ProductionVariants": variants, "ExecutionRoleArn": str(draw(NUMBERS))}
        endpoints.append({"EndpointName": name, "EndpointConfig": config})
    for name in names("c") if endpoints else ():
        components.append(
            {
                "InferenceComponentName": name,
                "EndpointName": draw(st.sampled_from(endpoints))["EndpointName"],
                "Specification": {"ModelName": models[0]["ModelName"] if models else str(draw(NUMBERS))},
                "RuntimeConfig": {"CopyCount": draw(NUMBERS)},
            }
        )
        target = {"ServiceNamespace": "sagemaker", "ScalableDimension": "d"}
        target |= {"ResourceId": f"inference-component/{name}"}
        if draw(st.booleans()):
            targets.append(target | {"MinCapacity": 1, "MaxCapacity": draw(NUMBERS)})
            policies.append(target | {"PolicyName": "p", "PolicyType": "StepScaling"})
    return Wanted(own, *map(tuple, (models, endpoints, components, targets, policies)))


def by_hand(server):
    """Make one of each by hand."""
    server.call("CreateModel", {"ModelName": "hand"})
    server.call("CreateEndpointConfig", {"EndpointConfigName": "one-e1-deadbeef", "ProductionVariants": []})
    server.call("CreateEndpoint", {"EndpointName": "hand", "EndpointConfigName": "one-e1-deadbeef"})


def borrow(server):
    """Make an endpoint by hand from a configuration that apply has made."""
    made = [
        name for name in server.kept["EndpointConfig"] if MARK in server.tags[f"arn:EndpointConfig/{name}"]
    ]
    if made and "borrower" not in server.kept["Endpoint"]:
        server.call("CreateEndpoint", {"EndpointName": "borrower", "EndpointConfigName": made[0]})


def apply(server, wanted, *, prune):
    changes = plan(wanted, look(server, wanted, everything=prune), prune=prune)
    carry_out(server, changes, lambda _: None)
    return changes


def marked(server):
    """Return what there is of each file, by its mark."""
    found = {}
    for kind, kept in server.kept.items():
        for name in kept:
            mark = server.tags[f"arn:{kind}/{name}"].get(MARK)
            found.setdefault(mark, set()).add((kind, name))
    return found


@given(st.lists(st.tuples(files(), st.booleans()), max_size=5))
def test_every_file_is_applied_once_and_takes_nothing_of_others(history):
    server = FakeServer()
    by_hand(server)
    for wanted, prune in history:
        borrow(server)
        before = marked(server)
        changes = apply(server, wanted, prune=prune)
        again = plan(wanted, look(server, wanted, everything=prune), prune=prune)
        assert not any(map(is_change, again)), again
        assert prune or {change.kind for change in changes if change.action is Action.DELETE} <= {
            "endpoint configuration"
        }
        after = marked(server)
        assert after[None] == before[None], "what was made by hand stays"
        for mark in before.keys() - {wanted.name, None}:
            # Configurations follow the endpoints, whoever names those.
            gone = {one for one in before[mark] - after.get(mark, set()) if one[0] != "EndpointConfig"}
            named = {("Model", one["ModelName"]) for one in wanted.models}
            named |= {("Endpoint", one["EndpointName"]) for one in wanted.endpoints}
            named |= {("InferenceComponent", one["InferenceComponentName"]) for one in wanted.components}
            assert gone <= named, "things of other files go only where this file names them, to be replaced"
        if prune:
            named = {one["EndpointName"] for one in wanted.endpoints}
            left = {name for kind, name in after.get(wanted.name, set()) if kind == "Endpoint"}
            assert left <= named
            scaled = {one["ResourceId"] for one in wanted.targets}
            for target in server.scaling["ScalableTargets"].values():
                ours = server.tags[target["ScalableTargetARN"]].get(MARK) == wanted.name
                assert target["ResourceId"] in scaled or not ours
    used = {one["EndpointConfigName"] for one in server.kept["Endpoint"].values()}
    assert used <= set(server.kept["EndpointConfig"]), "no endpoint has lost its configuration"
