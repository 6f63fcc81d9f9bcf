"""Is a disk that is not blank refused in words, with everything else on its node going on?"""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Fleet

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

IMAGE = "/var/tmp/home.img"


def test_a_disk_that_is_not_blank_is_refused_and_the_rest_of_the_node_goes_on(fleet: Fleet) -> None:
    node, before = "gpu-03", fleet.stack.read_text()
    disk = fleet.node(node, f"truncate -s 4200M {IMAGE}; mkfs.ext4 -q -L home {IMAGE}; losetup --find --show {IMAGE}")
    hashed = f"head -c 64M {disk} | sha256sum"
    try:
        content, mounted = (fleet.node(node, command) for command in (hashed, "findmnt -n /srv/swarm"))
        kept = fleet.node(node, "find /srv/swarm | sort")
        line = next(line for line in before.splitlines() if line.strip().startswith("l40s:"))
        fleet.edit(line, line.replace("disk: /dev/vdb", f"disk: {disk}"))
        fleet.edit("net.core.somaxconn: 1024", "net.core.somaxconn: 2048")
        done = fleet.swarm("up", "--yes", "--skip-preview")
        assert done.status != 0
        assert f"{disk} is not blank (it carries ext4 labelled home); it is never formatted" in done.text, done.text
        assert fleet.node(node, "cat /proc/sys/net/core/somaxconn") == "2048", "everything else went on"
        assert fleet.node(node, hashed) == content
        assert fleet.node(node, "findmnt -n /srv/swarm") == mounted, "the old disk was not given away for it"
        assert fleet.node(node, "find /srv/swarm | sort") == kept
        fleet.stack.write_text(before)
        fleet.swarm("up", "--yes", "--skip-preview").ok()
    finally:
        fleet.stack.write_text(before)
        fleet.node(node, f"losetup --detach {disk}; rm -f {IMAGE}")
