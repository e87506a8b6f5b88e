"""``python -m warmroute``."""

from warmroute.cli.main import main

if __name__ == "__main__":
    main(prog_name="warmroute")
