"""A throw-away PostgreSQL: the Debian package's own programs, a Unix socket, no TCP port, no fsync."""

import os
import pwd
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

USER = "warmroute"
PASSWORD = "s3cret-&-long"  # asked for by nobody: it must show up nowhere


def programs():
    """Return the directory of initdb and pg_ctl of the newest PostgreSQL here; None when there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


class Postgres:
    """One server; ``stop`` takes it and its files away."""

    def __init__(self, directory):
        # PostgreSQL refuses to run as root; the package has made a user.
        self._owner = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        self._programs = directory
        self.home = Path(tempfile.mkdtemp(prefix="warmroute-pg-"))  # short: it holds a socket
        if self._owner is not None:
            os.chown(self.home, self._owner.pw_uid, self._owner.pw_gid)
        self._data = self.home / "data"
        self._run("initdb", "-D", self._data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync", "-N")
        settings = f"""
listen_addresses = ''
unix_socket_directories = '{self.home}'
fsync = off
full_page_writes = off
shared_buffers = 16MB
max_connections = 40
autovacuum = off
"""
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(settings)
        self.start()

    def start(self):
        self._run("pg_ctl", "-D", self._data, "-w", "-t", "30", "-l", self.home / "log", "start")

    def shut_down(self, mode="immediate"):
        self._run("pg_ctl", "-D", self._data, "-w", "-t", "30", "-m", mode, "stop")

    def restart(self):
        self.shut_down()
        self.start()

    def stop(self):
        try:
            if (self._data / "postmaster.pid").exists():
                self.shut_down()
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    def url(self, database="postgres"):
        password = PASSWORD.replace("&", "%26")
        return f"postgresql://{USER}:{password}@/{database}?host={self.home}"

    def database(self):
        """Make an empty database; return its URL."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement, database="postgres"):
        """Run a statement; return its rows."""
        import psycopg

        with psycopg.connect(
            host=str(self.home), dbname=database, user=USER, autocommit=True, connect_timeout=5
        ) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description is not None else []

    def pid(self):
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def _run(self, program, *arguments):
        as_owner = {}
        if self._owner is not None:
            as_owner = {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}
        done = subprocess.run(
            [self._programs / program, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
            text=True,
            timeout=90,
            check=False,
            **as_owner,
        )
        assert done.returncode == 0, f"{program}: {done.stdout}"
