import json

from warmroute.cli.demo.machine import machine_facts, versions


def test_the_facts_are_there_and_can_be_written_as_json():
    facts, found = machine_facts(), versions()
    json.dumps([facts, found])
    assert facts["processors"] >= 1
    assert facts["memory_bytes"] > 2**27
    assert {"python", "warmroute", "boto3"} <= set(found)
