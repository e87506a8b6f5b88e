from warmroute.core.ids import EndpointName, InstanceId, TargetId, VariantName


def test_identifiers_are_plain_text_at_run_time():
    for make in (EndpointName, VariantName, InstanceId, TargetId):
        assert make("1") == "1"
