from click.testing import CliRunner

from warmroute.app.reference import markdown
from warmroute.cli.main import main


def test_reference_prints_the_page():
    result = CliRunner().invoke(main, ["config", "reference"])
    assert (result.exit_code, result.output) == (0, markdown())


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
