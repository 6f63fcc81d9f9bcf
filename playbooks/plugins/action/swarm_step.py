"""What of a node's answer to its steps comes into Ansible? Outcomes within bounds and words; nothing else.

A module's result can do more in Ansible than say what became of a task: its facts become variables, and it is copied,
printed and sent on in the process that all hosts share, whatever its size and depth. So the result is made anew here,
from what is asked of the node and from the outcomes that it names.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from ansible.plugins.action import ActionBase

#: The most that an answer may hold: characters of text, values, and values within values.
_CHARACTERS, _VALUES, _DEPTH = 4 << 20, 200_000, 24
#: The most of a failure's words. [characters]
_WORDS = 4000


class ActionModule(ActionBase):
    """Sends the module of the same name, with the node program for a node that does not have it."""

    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        """See ActionBase."""
        super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        arguments["archive"] = Path(arguments["archive"]).read_text(encoding="ascii")
        told = self._execute_module(module_name="swarm_step", module_args=arguments, task_vars=task_vars)
        steps = json.loads(base64.b64decode(arguments["steps"]))["steps"]
        return answer(told, [step["id"] for step in steps], list(arguments.get("failed") or ()), self._task.diff)


def answer(told, asked, failed, diff):
    """The result for Ansible, of whatever the module returned. `asked`: ids of the steps; `failed`: of those before."""
    outcomes = told.get("outcomes")
    if told.get("failed") or not isinstance(outcomes, list):
        texts = (told.get(key) for key in ("msg", "module_stderr", "stderr", "module_stdout"))
        words = next((text for text in texts if isinstance(text, str) and text.strip()), "the node gave no outcomes")
        return {"failed": True, "msg": words[-_WORDS:]}
    if not _bounded(outcomes):
        return {"failed": True, "msg": "the node's answer is larger than any answer to these steps"}
    outcomes = [one for one in outcomes if isinstance(one, dict) and one.get("id") in asked]
    bad = [one["id"] for one in outcomes if one.get("ok") is not True]
    result = {
        "changed": any(one.get("changed") is True for one in outcomes),
        "outcomes": outcomes,
        "ansible_facts": {"swarm_failed": [*failed, *bad]},
    }
    shown = told.get("diff")
    if diff and isinstance(shown, dict):
        result["diff"] = {side: str(shown.get(side) or "")[:_CHARACTERS] for side in ("before", "after")}
    return result


def _bounded(value):
    """Does it stay within what an answer may hold? Looked at without recursion, which a deep one would end."""
    characters = values = 0
    level = [value]
    for _ in range(_DEPTH):
        below = []
        for each in level:
            values += 1
            if isinstance(each, dict):
                below.extend(each.keys())
                below.extend(each.values())
            elif isinstance(each, (list, tuple)):
                below.extend(each)
            elif isinstance(each, str):
                characters += len(each)
            if values + len(below) > _VALUES or characters > _CHARACTERS:
                return False
        if not below:
            return True
        level = below
    return False
