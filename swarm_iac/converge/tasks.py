"""What is read while the steps of a verb are carried out?"""

from __future__ import annotations

from collections.abc import Mapping

from swarm_iac.model.step import Verb

#: Names of Ansible's tasks, which also identify its events, since all use one role.
WORDS: Mapping[Verb, str] = {
    Verb.PREPARE: "Install the node program and the boot unit",
    Verb.STOP: "Ask units to end, wait out their grace",
    Verb.RELEASE: "Release what allocations held: slice, directories, devices, bandwidth",
    Verb.SETTINGS: "Set sysctls, huge pages and the governor",
    Verb.GPUS: "Set persistence, clock and power of GPUs through NVML",
    Verb.STORAGE: "Make the file system of a blank disk, and mount it",
    Verb.TELEMETRY: "Set up what measures the node",
    Verb.SLICE: "Make the cgroup of an allocation, with its devices",
    Verb.DIRECTORIES: "Make scratch and cache directories with their quota",
    Verb.TRAFFIC: "Class the bandwidth of allocations",
    Verb.START: "Write and start units",
    Verb.HEALTH: "Wait until units are healthy",
    Verb.RESTORE: "Put the originals back, remove the node program and the ledger",
}
VERB_OF: Mapping[str, Verb] = {words: verb for verb, words in WORDS.items()}
