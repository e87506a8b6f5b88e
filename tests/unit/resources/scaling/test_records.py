"""Records of autoscaling."""

from warmroute.resources.scaling.records import SCALING_KIND_OF, ScalableTargetRecord, ScalingKind


def test_every_kind_has_one_record():
    assert sorted(SCALING_KIND_OF.values()) == sorted(ScalingKind)


def test_a_target_is_named_by_its_resource_alone():
    assert ScalableTargetRecord("inference-component/a", "d", 1.0, "t", 0, 1).name == ""
