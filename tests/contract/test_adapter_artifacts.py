"""What every shelf of adapter files must do, and what the real one makes of archives."""

import asyncio
import io
import tarfile
from pathlib import Path

import pytest

from warmroute.adapters.lora.artifacts import DirectoryShelf
from warmroute.adapters.lora.memory import MemoryShelf
from warmroute.controlplane.ports import ArtifactRefused


class Shelf:
    def __init__(self, tmp_path, **bounds):
        self.unpacked = tmp_path / "data" / "adapters"
        self.directory = tmp_path
        self.shelf = DirectoryShelf(self.unpacked, **bounds)

    def fetch(self, path, name="a", *, elsewhere=False):
        url = path if isinstance(path, str) else path.as_uri()
        return asyncio.run(self.shelf.fetch(url, name=name, elsewhere=elsewhere))

    def refusal(self, path, **kwargs):
        with pytest.raises(ArtifactRefused) as caught:
            self.fetch(path, **kwargs)
        return str(caught.value)

    def keep(self, **paths):
        asyncio.run(self.shelf.keep_only({name: frozenset(each) for name, each in paths.items()}))


def archive(path, entries, mode="w:gz"):
    """Write an archive of (name, bytes, or a tuple with the type of entry)."""
    with tarfile.open(path, mode) as tar:
        for name, content in entries:
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            else:
                (member.type,) = content
                member.linkname = "adapter_config.json"
                tar.addfile(member)
    return path


GOOD = [("adapter_config.json", b"{}"), ("adapter_model.safetensors", b"weights")]


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path)


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_a_directory_is_used_as_it_is(kind, tmp_path):
    made = MemoryShelf() if kind == "memory" else DirectoryShelf(tmp_path / "data")
    (tmp_path / "my adapter").mkdir()
    url = f"file://{tmp_path}/my adapter"
    assert asyncio.run(made.fetch(url, name="a", elsewhere=False)) == f"{tmp_path}/my adapter"


def test_the_memory_shelf_refuses_what_a_test_wants():
    made = MemoryShelf(refusals={"file:///x": "no"})
    with pytest.raises(ArtifactRefused, match="no"):
        asyncio.run(made.fetch("file:///x", name="a", elsewhere=False))
    asyncio.run(made.keep_only({"a": frozenset({"/x"})}))
    assert made.kept == {"a": frozenset({"/x"})}


def test_a_plain_path_is_one_of_this_machine(shelf):
    assert shelf.fetch(str(shelf.directory)) == str(shelf.directory)


def test_percent_signs_are_read(shelf):
    (shelf.directory / "a b").mkdir()
    assert shelf.fetch(f"file://{shelf.directory}/a%20b") == f"{shelf.directory}/a b"


@pytest.mark.parametrize("mode", ["w:gz", "w", "w:xz"])
def test_an_archive_is_unpacked(shelf, mode):
    path = shelf.fetch(archive(shelf.directory / "a.tar", GOOD, mode))
    unpacked = [each.name for each in sorted((shelf.unpacked / "a").glob("*/*"))]
    assert unpacked == ["adapter_config.json", "adapter_model.safetensors"]
    assert (Path(path) / "adapter_model.safetensors").read_bytes() == b"weights"


def test_the_directory_inside_of_an_archive_is_found(shelf):
    entries = [("out", (tarfile.DIRTYPE,)), *[(f"out/{name}", data) for name, data in GOOD]]
    assert shelf.fetch(archive(shelf.directory / "a.tgz", entries)).endswith("/out")


def test_an_archive_without_the_usual_file_is_its_own_directory(shelf):
    path = shelf.fetch(archive(shelf.directory / "a.tgz", [("x/weights", b"")]))
    assert path.startswith(str(shelf.unpacked / "a"))
    assert not path.endswith("/x")


def test_an_archive_is_unpacked_once(shelf):
    made = archive(shelf.directory / "a.tgz", GOOD)
    assert shelf.fetch(made) == shelf.fetch(made)
    assert len(list((shelf.unpacked / "a").iterdir())) == 1


def test_an_archive_that_was_written_anew_is_another_one(shelf):
    made = archive(shelf.directory / "a.tgz", GOOD)
    first = shelf.fetch(made)
    assert shelf.fetch(archive(made, [*GOOD, ("more", b"more")])) != first


@pytest.mark.parametrize("name", ["../evil", "/evil", "x/../../evil", "x/.."])
def test_names_that_lead_out_are_refused(shelf, name):
    assert "leads out of it" in shelf.refusal(archive(shelf.directory / "a.tgz", [*GOOD, (name, b"x")]))
    assert not list(shelf.directory.rglob("evil"))
    assert list((shelf.unpacked / "a").iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(shelf, kind):
    made = archive(shelf.directory / "a.tgz", [*GOOD, ("odd", (kind,))])
    assert "neither a plain file nor a directory" in shelf.refusal(made)


def test_the_same_name_twice_is_refused(shelf):
    made = archive(shelf.directory / "a.tgz", [("x", b"1"), ("x", b"2")])
    assert "cannot be unpacked" in shelf.refusal(made)


def test_the_size_is_bounded(tmp_path):
    made = archive(tmp_path / "a.tgz", [("x", b"12345"), ("y", b"12345")])
    assert Shelf(tmp_path, bytes_max=10).fetch(made)
    other = archive(tmp_path / "b.tgz", [("x", b"12345"), ("y", b"123456")])
    assert "more than 10 bytes" in Shelf(tmp_path, bytes_max=10).refusal(other)


def test_the_number_of_entries_is_bounded(tmp_path):
    made = archive(tmp_path / "a.tgz", [("x", b""), ("y", b"")])
    assert "more than 1 entries" in Shelf(tmp_path, files_max=1).refusal(made)
    assert Shelf(tmp_path, files_max=2).fetch(made)


@pytest.mark.parametrize("content", [b"no archive", b""])
def test_a_file_that_is_no_archive_is_refused(shelf, content):
    (shelf.directory / "a.tgz").write_bytes(content)
    assert "cannot be unpacked" in shelf.refusal(shelf.directory / "a.tgz")


def test_an_archive_that_is_cut_is_refused(shelf):
    made = archive(shelf.directory / "a.tgz", [("x", bytes(range(256)) * 400)])
    made.write_bytes(made.read_bytes()[:-50])
    assert "cannot be unpacked" in shelf.refusal(made)
    assert list((shelf.unpacked / "a").iterdir()) == []


def test_what_is_not_here_is_refused(shelf):
    assert "no file or directory /nowhere" in shelf.refusal("file:///nowhere")


def test_what_is_not_here_may_be_where_the_servers_are(shelf):
    assert shelf.fetch("file:///nowhere", elsewhere=True) == "/nowhere"


@pytest.mark.parametrize("scheme", ["s3", "https", "http"])
def test_other_places_are_refused_with_what_to_do(shelf, scheme):
    assert f"nothing from {scheme}://" in shelf.refusal(f"{scheme}://bucket/a.tar.gz")
    assert "file:///PATH" in shelf.refusal(f"{scheme}://bucket/a.tar.gz")


@pytest.mark.parametrize("url", ["file://host/x", "relative", "ftp://x/y"])
def test_what_is_no_path_of_this_machine_is_refused(shelf, url):
    assert "must be file:///PATH" in shelf.refusal(url)


def test_what_is_not_in_use_is_removed(shelf):
    made = archive(shelf.directory / "a.tgz", GOOD)
    old = shelf.fetch(made)
    new = shelf.fetch(archive(made, [*GOOD, ("more", b"more")]))
    shelf.fetch(made, name="b")
    shelf.keep(a=[new])
    assert [each.name for each in shelf.unpacked.iterdir()] == ["a"]
    assert [str(each) for each in (shelf.unpacked / "a").iterdir()] == [new]
    assert old != new


def test_nothing_unpacked_is_nothing_to_remove(shelf):
    shelf.keep()
    assert not shelf.unpacked.exists()
