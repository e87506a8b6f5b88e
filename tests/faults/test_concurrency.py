"""Many callers at once through boto3: one creator wins, no update is lost, every answer is documented."""

import collections
import concurrent.futures
import random
import threading

import pytest
from botocore.exceptions import ClientError

from tests.clients import ONCE, boto3_client
from tests.running import clean_environment

pytestmark = pytest.mark.process

CALLERS = 12
REFUSALS = (
    "Cannot create already existing",
    "Could not find",
    "Cannot update in-progress endpoint",
    "Cannot delete",
    "does not exist",
)


@pytest.fixture(params=["sqlite", "postgresql"])
def server(request, warmroute_server, stub_servers, tmp_path):
    urls = [stub_servers("a").url, stub_servers("b").url]
    (tmp_path / "warmroute.toml").write_text(
        f'[instance_types."fixed"]\nprovider = "static"\nurls = ["{urls[0]}", "{urls[1]}"]\n'
    )
    extra = {}
    if request.param == "postgresql":
        extra["WARMROUTE_SERVER__STORE_URL"] = request.getfixturevalue("postgres").database()
    started = warmroute_server(environment=clean_environment(**extra))
    started.wait_for_control()
    return started


@pytest.fixture
def sagemaker(server):
    client = boto3_client(
        "sagemaker",
        server.url,
        retries=ONCE,
        max_pool_connections=CALLERS,
        read_timeout=50,
        connect_timeout=10,
    )
    yield client
    client.close()


def at_once(call, count=CALLERS):
    """Call from many threads at the same moment; return ``""`` or the refusal of each, in order."""
    gate = threading.Barrier(count)

    def one(number):
        gate.wait()
        try:
            call(number)
        except ClientError as error:
            return f"{error.response['Error']['Code']}: {error.response['Error']['Message']}"
        return ""

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(one, range(count)))
    for answer in filter(None, answers):
        assert answer.startswith("ValidationException: "), answer
        assert any(text in answer for text in REFUSALS), answer
    return answers


def variant(count=1, weight=1.0):
    return {
        "VariantName": "v",
        "ModelName": "m",
        "InstanceType": "fixed",
        "InitialInstanceCount": count,
        "InitialVariantWeight": weight,
    }


def test_of_many_creators_one_wins_and_of_many_deleters_one_finds_it(sagemaker):
    sagemaker.create_model(ModelName="m", PrimaryContainer={"Image": "img"})
    for make, remove in (
        (
            lambda n: sagemaker.create_model(ModelName="same", PrimaryContainer={"Image": f"i{n}"}),
            lambda n: sagemaker.delete_model(ModelName="same"),
        ),
        (
            lambda n: sagemaker.create_endpoint_config(
                EndpointConfigName="same", ProductionVariants=[variant()]
            ),
            lambda n: sagemaker.delete_endpoint_config(EndpointConfigName="same"),
        ),
    ):
        for _ in range(3):
            made = at_once(make)
            assert made.count("") == 1
            assert all("already existing" in text for text in made if text)
            removed = at_once(remove)
            assert removed.count("") == 1
            assert all("Could not find" in text for text in removed if text)


def test_no_tag_of_many_callers_is_lost(sagemaker):
    arn = sagemaker.create_model(ModelName="m", PrimaryContainer={"Image": "img"})["ModelArn"]
    assert (
        at_once(lambda n: sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": f"k{n}", "Value": str(n)}]))
        == [""] * CALLERS
    )
    assert (
        at_once(
            lambda n: (
                sagemaker.delete_tags(ResourceArn=arn, TagKeys=[f"k{n}"])
                if n % 2
                else sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": f"l{n}", "Value": "x"}])
            )
        )
        == [""] * CALLERS
    )
    kept = {tag["Key"] for tag in sagemaker.list_tags(ResourceArn=arn)["Tags"]}
    assert kept == {f"{letter}{n}" for n in range(0, CALLERS, 2) for letter in "kl"}


def test_updates_of_one_endpoint_come_one_after_another_and_the_last_success_is_in_force(sagemaker):
    sagemaker.create_model(ModelName="m", PrimaryContainer={"Image": "img"})
    for number in range(CALLERS):
        sagemaker.create_endpoint_config(
            EndpointConfigName=f"c{number}", ProductionVariants=[variant(weight=1.0 + number)]
        )
    made = at_once(lambda n: sagemaker.create_endpoint(EndpointName="ep", EndpointConfigName=f"c{n}"))
    assert made.count("") == 1
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName="ep", WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
    assert sagemaker.describe_endpoint(EndpointName="ep")["EndpointConfigName"] == f"c{made.index('')}"

    updated = at_once(lambda n: sagemaker.update_endpoint(EndpointName="ep", EndpointConfigName=f"c{n}"))
    assert updated.count("") >= 1
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName="ep", WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
    name = sagemaker.describe_endpoint(EndpointName="ep")["EndpointConfigName"]
    assert updated[int(name[1:])] == ""

    removed = at_once(lambda n: sagemaker.delete_endpoint(EndpointName="ep"))
    assert removed.count("") == 1


def test_a_storm_of_everything_leaves_what_its_answers_say(sagemaker):
    created = collections.Counter()
    lock = threading.Lock()
    sagemaker.create_model(ModelName="m", PrimaryContainer={"Image": "img"})
    sagemaker.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant()])

    def storm(number):
        choice = random.Random(number)
        for _ in range(25):
            name = f"s{choice.randrange(3)}"
            make = choice.random() < 0.5
            refused = ""
            try:
                if make:
                    sagemaker.create_model(ModelName=name, PrimaryContainer={"Image": "img"})
                else:
                    sagemaker.delete_model(ModelName=name)
            except ClientError as error:
                refused = error.response["Error"]["Message"]
                assert any(text in refused for text in REFUSALS[:2]), refused
            if not refused:
                with lock:
                    created[name] += 1 if make else -1

    assert at_once(storm) == [""] * CALLERS
    there = {model["ModelName"] for model in sagemaker.list_models()["Models"]} - {"m"}
    assert all(count in (0, 1) for count in created.values()), created
    assert there == {name for name, count in created.items() if count}
