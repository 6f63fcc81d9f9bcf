"""What is in a new fleet repository? `swarm init` creates it and overwrites nothing."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from swarm_iac import __version__, assets, git
from swarm_iac.errors import SwarmError
from swarm_iac.stackfile import schema

#: How git is told to merge locks and proofs with us; a repository's own settings, so that no pull request can change them.
MERGE_DRIVER = (
    ("merge.swarm.name", "locks of swarm"),
    ("merge.swarm.driver", "swarm solve --merge --driver %O %A %B %P"),
)
_TEMPLATE = Path(__file__).with_name("template")
#: Template name → name in the repository. Dots are added here, so that no tool reads the template as its settings.
_FILES = {
    "Pulumi.yaml": "Pulumi.yaml",
    "program.py.txt": "__main__.py",
    "plugin.py.txt": "bin/pulumi-resource-swarm",
    "gitignore": ".gitignore",
    "gitattributes": ".gitattributes",
    "README.md": "README.md",
}
#: Forge → the same for its pull requests.
_FORGES = {
    "github": {"github-workflow.yaml": ".github/workflows/swarm.yaml"},
    "gitea": {
        "gitea-workflow.yaml": ".gitea/workflows/stack-file.yaml",
        "swarm-bot.service": "ci/swarm-bot.service",
        "swarm-bot.timer": "ci/swarm-bot.timer",
        "swarm-nightly.service": "ci/swarm-nightly.service",
        "swarm-nightly.timer": "ci/swarm-nightly.timer",
    },
    "gitlab": {"gitlab-ci.yaml": ".gitlab-ci.yml"},
}

#: For a Prometheus and a Grafana that watch the fleet, for what records its usage, and for what follows its load.
_MONITORING = {
    "prometheus.yml": "monitoring/prometheus.yml",
    "records.yml": "monitoring/rules/records.yml",
    "alerts.yml": "monitoring/rules/alerts.yml",
    "grafana.json": "monitoring/grafana/fleet.json",
    "swarm-usage.service": "monitoring/systemd/swarm-usage.service",
    "swarm-usage.timer": "monitoring/systemd/swarm-usage.timer",
    "swarm-autopilot.service": "monitoring/systemd/swarm-autopilot.service",
}

_NEXT = "For pull requests: docs/forges.md says which account, secrets and branch protection belong to it."


def make(folder: Path, forge: str = "", *, monitoring: bool = False) -> tuple[str, ...]:
    """Create the repository in `folder` and describe it; `forge`: with the files for its pull requests.

    In a fleet repository only those are added, and with `monitoring` those for Prometheus, which a new one has anyway. Raises
    SwarmError if the folder is neither empty nor one, or a file exists.
    """
    added = _FORGES[forge] if forge else {}
    if (forge or monitoring) and (folder / "Pulumi.yaml").is_file():
        added = {**added, **(_MONITORING if monitoring else {})}
        for target in added.values():
            if (folder / target).exists():
                raise SwarmError(f"{folder / target} exists", hint="remove or rename it; nothing was written")
        return (*_write(folder, added), *([_NEXT] if forge else ()))
    if folder.exists() and any(folder.iterdir()):
        hint = "name a new folder, or a fleet repository with --forge or --monitoring"
        raise SwarmError(f"{folder} is not empty", hint=hint)
    _write(folder, {**_FILES, **_MONITORING, **added})
    (folder / "bin" / "pulumi-resource-swarm").chmod(0o755)
    (folder / "stacks").mkdir()
    (folder / "stacks" / "dev.yaml").write_text(_first_stack())
    (folder / "stack.schema.json").write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n")
    shutil.copytree(assets.policies(), folder / "policies", ignore=shutil.ignore_patterns("__pycache__"))
    installed = _merge_driver(folder)
    return (
        f"{folder} is a fleet repository.",
        *(() if installed else ("For git to merge lock files, once in each clone:", *map(_command, MERGE_DRIVER))),
        "Its stack, stacks/dev.yaml, describes the sandbox: three virtual nodes. To try it:",
        f"  cd {folder} && swarm sandbox up && swarm up",
        "For your own machines: swarm discover NAME=root@HOST … writes the hardware section of a stack file.",
        *([_NEXT] if forge else ()),
    )


def _merge_driver(folder: Path) -> bool:
    """Set git's merge driver in the repository that the folder is in. False where there is none yet."""
    for name, value in MERGE_DRIVER:
        try:
            git.ask(folder, "config", "--local", name, value)
        except SwarmError:
            return False
    return True


def _command(setting: tuple[str, str]) -> str:
    return f"  git config {setting[0]} {shlex.quote(setting[1])}"


def _write(folder: Path, files: Mapping[str, str]) -> tuple[str, ...]:
    """Template name → name in the repository; a line for each."""
    for source, target in files.items():
        text = (_TEMPLATE / source).read_text().replace("FLEET", folder.resolve().name).replace("VERSION", __version__)
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tuple(f"wrote {folder / target}" for target in files.values())


def _first_stack() -> str:
    """stacks/dev.yaml of this project, adapted to the new repository."""
    text = (assets.stacks() / "dev.yaml").read_text()
    return re.sub(r"\$schema=\S+", "$schema=../stack.schema.json", text, count=1).replace("`make up`", "`swarm demo`")
