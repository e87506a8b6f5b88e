import pytest
from click.testing import CliRunner

from warmroute.app import errors_reference, metrics_reference, reference
from warmroute.cli import reference as cli_reference
from warmroute.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        ([], reference),
        (["settings"], reference),
        (["metrics"], metrics_reference),
        (["errors"], errors_reference),
        (["cli"], cli_reference),
    ],
)
def test_reference_prints_the_page(arguments, page):
    result = CliRunner().invoke(main, ["config", "reference", *arguments])
    assert (result.exit_code, result.output) == (0, page.markdown())


def test_reference_names_the_pages_there_are():
    result = CliRunner().invoke(main, ["config", "reference", "limits"])
    assert result.exit_code == 2
    assert "settings" in result.stderr
    assert "metrics" in result.stderr


def test_check_says_what_was_understood(tmp_path):
    (tmp_path / "w.toml").write_text(
        '[instance_types."ml.gpu"]\nprovider = "static"\nurls = ["http://a:1"]\n'
    )
    result = CliRunner().invoke(main, ["config", "check", "--config", str(tmp_path / "w.toml")])
    assert result.output == "The settings are right. Instance types: ml.local, ml.gpu.\n"


def test_check_finds_a_mistake_between_sections(tmp_path):
    (tmp_path / "w.toml").write_text('[instance_types."ml.gpu"]\nprovider = "local"\nimage = "mine"\n')
    result = CliRunner().invoke(main, ["config", "check", "--config", str(tmp_path / "w.toml")])
    assert result.exit_code == 2
    assert 'instance_types."ml.gpu".image = mine: no such image' in result.stderr


def test_check_warns_about_a_secret_file_that_others_may_read(tmp_path):
    (tmp_path / "secret").write_text("a long secret")
    (tmp_path / "secret").chmod(0o644)
    (tmp_path / "w.toml").write_text(
        '[auth]\naccess_keys = [{ access_key_id = "AKID", secret_access_key_file = "secret" }]\n'
    )
    result = CliRunner().invoke(main, ["config", "check", "--config", str(tmp_path / "w.toml")])
    assert result.exit_code == 0
    assert f"warmroute: warning: {tmp_path}/secret holds a secret" in result.stderr
