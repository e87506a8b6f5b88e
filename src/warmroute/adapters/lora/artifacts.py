"""The files of LoRA adapters: directories of this machine as they are, archives unpacked.

Nothing of an archive is trusted: it may hold plain files and directories alone, none of whose names leads
out of the directory it is unpacked into, and no more than the limits allow.
"""

import asyncio
import hashlib
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Final
from urllib.parse import unquote, urlsplit

from warmroute.controlplane.ports import ArtifactRefused
from warmroute.core import limits

_MARK: Final = "adapter_config.json"
"""Stands beside the weights in every adapter that PEFT has written."""
_BLOCK_BYTES: Final = 1024 * 1024
_NAME: Final = re.compile(r"[a-zA-Z0-9-]+")


class DirectoryShelf:
    """Implements ``controlplane.ports.ArtifactShelf``.

    Args:
        directory: What is unpacked goes there, in a directory for each adapter; made when it is needed.
        bytes_max: Of one archive, unpacked.
        files_max: Likewise.
    """

    def __init__(
        self,
        directory: Path,
        *,
        bytes_max: int = limits.ADAPTER_ARTIFACT_BYTES_MAX,
        files_max: int = limits.ADAPTER_ARTIFACT_FILES_MAX,
    ) -> None:
        self._directory = directory
        self._bytes_max = bytes_max
        self._files_max = files_max
        # A cancelled fetch leaves its thread at work: the next one of the same archive waits for it.
        self._lock = asyncio.Lock()

    async def fetch(self, url: str, *, name: str, elsewhere: bool) -> str:
        """Return the directory of an adapter; of an archive, that of its ``adapter_config.json``.

        Raises:
            ArtifactRefused: There is no such directory or archive, or it cannot be unpacked.
        """
        path = _path_in(url)
        async with self._lock:
            return await asyncio.to_thread(self._fetch, path, name, elsewhere=elsewhere)

    async def keep_only(self, paths: Mapping[str, frozenset[str]]) -> None:
        """Remove what was unpacked and is in no path of its adapter."""
        async with self._lock:
            await asyncio.to_thread(self._keep_only, paths)

    def _fetch(self, path: Path, name: str, *, elsewhere: bool) -> str:
        try:
            if path.is_dir():
                return str(path)
            if path.is_file():
                return str(_root_of(self._unpacked(path, name)))
        except (tarfile.TarError, OSError, EOFError) as error:
            raise ArtifactRefused(f"ArtifactUrl: {path} cannot be unpacked: {error}.") from None
        if elsewhere:
            return str(path)
        raise ArtifactRefused(f"ArtifactUrl: there is no file or directory {path} on this machine.")

    def _unpacked(self, archive: Path, name: str) -> Path:
        assert _NAME.fullmatch(name), "the service model's pattern for names"
        about = archive.stat()
        version = f"{archive.resolve()}\0{about.st_mtime_ns}\0{about.st_size}".encode()
        target = self._directory / name / hashlib.sha256(version).hexdigest()[:16]
        if target.is_dir():
            return target
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=target.parent) as temporary:
            fresh = Path(temporary) / "files"
            fresh.mkdir()
            with tarfile.open(archive, "r:*") as tar:
                self._unpack(tar, fresh)
            fresh.rename(target)
        return target

    def _unpack(self, tar: tarfile.TarFile, target: Path) -> None:
        left = self._bytes_max
        for number, member in enumerate(tar, start=1):
            if number > self._files_max:
                raise ArtifactRefused(f"ArtifactUrl: the archive has more than {self._files_max} entries.")
            place = target / _inside(member.name)
            if member.isdir():
                place.mkdir(parents=True, exist_ok=True)
                continue
            if not member.isreg():
                raise ArtifactRefused(
                    f"ArtifactUrl: {member.name!r} in the archive is neither a plain file nor a directory."
                )
            left -= member.size
            if left < 0:
                raise ArtifactRefused(
                    f"ArtifactUrl: the archive has more than {self._bytes_max} bytes, the most allowed."
                )
            place.parent.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            assert source is not None, "a plain file has content"
            with place.open("xb") as file:
                _copy(source, file)

    def _keep_only(self, paths: Mapping[str, frozenset[str]]) -> None:
        if not self._directory.is_dir():
            return
        for adapter in self._directory.iterdir():
            used = [Path(path) for path in paths.get(adapter.name, ())]
            for version in adapter.iterdir():
                if not any(path.is_relative_to(version) for path in used):
                    shutil.rmtree(version, ignore_errors=True)
            if adapter.name not in paths:
                shutil.rmtree(adapter, ignore_errors=True)


def _path_in(url: str) -> Path:
    parts = urlsplit(url)
    if parts.scheme in {"", "file"} and parts.netloc in {"", "localhost"} and parts.path.startswith("/"):
        return Path(unquote(parts.path))
    if parts.scheme in {"s3", "http", "https"}:
        raise ArtifactRefused(
            f"ArtifactUrl: warmroute fetches nothing from {parts.scheme}://. Put the adapter on this "
            f"machine, as a directory or a tar.gz, and give file:///PATH; got {url!r}."
        )
    raise ArtifactRefused(f"ArtifactUrl must be file:///PATH, got {url!r}.")


def _inside(name: str) -> PurePosixPath:
    """Return a name of an archive, if it stays inside."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise ArtifactRefused(f"ArtifactUrl: {name!r} in the archive leads out of it.")
    return path


def _copy(source: IO[bytes], file: IO[bytes]) -> None:
    while block := source.read(_BLOCK_BYTES):
        file.write(block)


def _root_of(directory: Path) -> Path:
    """Return the directory of the adapter in an archive: some archives hold one directory with everything."""
    marked = sorted(directory.rglob(_MARK), key=lambda path: (len(path.parts), path))
    return marked[0].parent if marked else directory
