"""How is this machine touched? Commands, files, systemd, traffic control, mounts; and an end for whatever hangs."""
