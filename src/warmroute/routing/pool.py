"""The rows that may serve one kind of request, kept ready for decisions.

A variant of one model has one pool, its instances. A variant with inference components has one pool per
component, its copies, and one per adapter that is loaded anywhere: the copies of the base component that
have it, which SageMaker calls the adapter's sticky instance set.
"""

from collections.abc import Iterable

from warmroute.routing.ledger import TargetRow


class InstanceRows:
    """The candidates that are copies on one instance.

    Attributes:
        instance_id: The instance's.
        name: The same as bytes, the input of the rendezvous order of instances.
        rows: At least one.
    """

    __slots__ = ("instance_id", "name", "rows")

    def __init__(self, instance_id: str) -> None:
        self.instance_id = instance_id
        self.name = instance_id.encode()
        self.rows: list[TargetRow] = []


class Pool:
    """Rows that may serve one kind of request. Built anew when any of them changes.

    Attributes:
        serving: Rows in service, ejected ones included, in order of their names.
        candidates: Those that may take a lease: not ejected.
        instances: The candidates by the instance that carries them; None where each is an instance itself.
        on_probation: Whether any candidate is.
    """

    __slots__ = ("candidates", "instances", "on_probation", "serving")

    def __init__(self, serving: list[TargetRow]) -> None:
        self.serving = serving
        self.candidates = [row for row in serving if not row.health.ejected]
        self.instances = by_instance(self.candidates)
        self.on_probation = any(row.health.probation for row in self.candidates)

    def free(self, tried: tuple[str, ...]) -> list[TargetRow]:
        """Return the candidates that an invocation may have: not tried, and not busy with their probation."""
        if not tried and not self.on_probation:
            return self.candidates
        return [row for row in self.candidates if row.target.target_id not in tried and not row.probing]


def by_instance(rows: list[TargetRow]) -> list[InstanceRows] | None:
    """Return rows by the instances that carry them, or None when each is an instance itself."""
    names = [(str(row.target.target_id), str(row.target.instance_id)) for row in rows]
    if all(target_id == instance_id for target_id, instance_id in names):
        return None
    instances: dict[str, InstanceRows] = {}
    for row in rows:
        instance_id = row.target.instance_id
        if instance_id not in instances:
            instances[instance_id] = InstanceRows(instance_id)
        instances[instance_id].rows.append(row)
    return list(instances.values())


def pools_of(serving: Iterable[TargetRow]) -> dict[tuple[str, str], Pool]:
    """Return the pools of a variant, by component and adapter, ``""`` for none.

    Args:
        serving: Its rows in service, in order of their names.

    Returns:
        Only pools that have rows, and the one for requests that name neither.
    """
    members: dict[tuple[str, str], list[TargetRow]] = {("", ""): []}
    for row in serving:
        for adapter in ("", *dict.fromkeys(row.target.adapters)):
            members.setdefault((row.target.component, adapter), []).append(row)
    return {asked: Pool(rows) for asked, rows in members.items()}
