#!/usr/bin/python
"""How does a playbook run steps of one verb on a node? Through the node's own program."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: swarm_step
short_description: Run steps of one verb through the node program
description:
  - Hands the steps to C(/usr/local/lib/swarm/DIGEST) and returns what became of each.
  - A step that fails is told in C(outcomes); the module itself fails only when the program cannot run.
  - Supports check mode (predicts the same changes) and diff mode (shows values).
options:
  verb: {description: The kind of step., type: str, required: true}
  steps:
    description:
      - Base64 of JSON, so that no value of a step is anything but data on its way here.
      - "C(steps): with id, allocation, want, after; C(guard): whose run this is: fleet, lineage, serial, run; for the
        record also who, commit."
    type: str
    required: true
  digest: {description: Digest of the node program., type: str, required: true}
  archive: {description: "The program itself (zip, base64), for a node that does not have it yet.", type: str}
  failed: {description: Ids of steps of this run that failed before., type: list, elements: str, default: []}
  home: {description: Where programs are installed., type: str, default: /usr/local/lib/swarm}
author: swarm-iac
"""

RETURN = r"""
outcomes: {description: "One per step: id, ok, changed, skipped, message, changes, seconds.", type: list, returned: always}
"""


def program(module):
    """Path of the program, and whether it is a temporary file."""
    parameters = module.params
    installed = os.path.join(parameters["home"], parameters["digest"])
    if os.path.isdir(installed):
        return installed, False
    if not parameters["archive"]:
        module.fail_json(msg="the node program %s is not installed here; a prepare step must come first" % parameters["digest"])
    handle, path = tempfile.mkstemp(prefix="swarm-", suffix=".zip")
    with os.fdopen(handle, "wb") as file:
        file.write(base64.b64decode(parameters["archive"]))
    return path, True


def python():
    """The words that run Python as root. Those of sudo stand in a rule: see docs/operations.md."""
    return [sys.executable or "python3"] if os.geteuid() == 0 else ["sudo", "-n", "--", "/usr/bin/python3"]


def perform(module, path):
    """The program's answer."""
    parameters = module.params
    asked = json.loads(base64.b64decode(parameters["steps"]).decode("utf-8"))
    request = {"verb": parameters["verb"], "steps": asked["steps"], "failed": parameters["failed"]}
    request["check"] = module.check_mode
    given = asked["guard"]
    request["guard"] = {name: given[name] for name in ("fleet", "lineage", "serial", "run")}
    request["run"] = {name: given.get(name, "") for name in ("who", "commit")}
    done = subprocess.run([*python(), "-I", "-S", path, "step"], input=json.dumps(request),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)  # fmt: skip
    if done.returncode:
        words = done.stderr.strip()[-1000:] or "the node program ended with %d" % done.returncode
        if words.startswith("sudo:") and not path.startswith(parameters["home"] + "/"):
            words = "%s: the node program %s is not installed here, and this account may not bring it: see `swarm program`" % (
                words, parameters["digest"])  # fmt: skip
        module.fail_json(msg=words)
    return json.loads(done.stdout)["results"]


def shown(results):
    """Old and new values of all steps, for diff mode."""
    lines = {"old": [], "new": []}
    for result in results:
        for change in result["changes"]:
            for side, text in lines.items():
                text.append("%s: %s" % (change["path"], json.dumps(change[side], sort_keys=True)))
    return {"before": "\n".join(lines["old"]) + "\n", "after": "\n".join(lines["new"]) + "\n"}


def main():
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "verb": {"type": "str", "required": True},
            "steps": {"type": "str", "required": True},
            "digest": {"type": "str", "required": True},
            "archive": {"type": "str", "no_log": True},
            "failed": {"type": "list", "elements": "str", "default": []},
            "home": {"type": "str", "default": "/usr/local/lib/swarm"},
        },
        supports_check_mode=True,
    )
    path, temporary = program(module)
    try:
        results = perform(module, path)
    finally:
        if temporary:
            os.unlink(path)
    failed = module.params["failed"] + [result["id"] for result in results if not result["ok"]]
    module.exit_json(
        changed=any(result["changed"] for result in results),
        # not `results`: Ansible would take it for those of a loop, and the task for skipped when all of them are
        outcomes=results,
        diff=shown(results),
        ansible_facts={"swarm_failed": failed},
    )


if __name__ == "__main__":
    main()
