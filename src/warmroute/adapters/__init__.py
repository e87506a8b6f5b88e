"""The world: sockets, processes, files, databases and time."""
