"""What is it called here? Keys and values that people bring from Slurm, Kubernetes, Nomad and Docker → what to write."""

from __future__ import annotations

import re
from collections.abc import Iterable

from swarm_iac.stackfile.reading.source import Step

#: Sections whose keys are names that the file gives: in a path here each of them is `*`.
_NAMED = ("teams", "tuning", "hardware", "racks", "sites", "power_saving", "nodes", "workloads")

_CONTAINER = (
    "a container without root is a command: `run: {command: apptainer exec --nv IMAGE python train.py, confined: false}`"
)
_HOLDS = "what one replica holds is under `each`: `each: {gpus: 1, vcpus: 4, memory: 16 GB}`"
_GPU_MEMORY = "GPUs with so much memory, of any model: `gpus: {count: 1, memory: 40 GB}`"
_GPU_MODEL = "the model is part of `gpus`: `gpus: 2 x H100`, or `gpus: 2 x H100|A100` for either"
_COMMAND = "`run: {command: python train.py}` is what is started"
_HEALTH = "in `run`, `healthy: /ready` asks its `port: 8000`; `healthy: python check.py` has to exit with 0"
_GANG = "`gang: 4` is so many members that run all together or not at all; one on each node with `place: {spread: node}`"
_REPLICAS = "`replicas: 4` is how many, each on its own; `gang: 4` runs all together or not at all"
_LABELS = "nodes with a label: `place: {select: {site: lab}}`; `labels` of a node gives it others"
_TIME = "`time: 12 h` ends a run; docs/stack-file.md has more"
_DISK = "`scratch: 200 GB` goes with the replica, `cache: 200 GB` stays for its next run on that node"
_OWNER = "`user` says whose it is; which team that is in stands under `teams`"
_SCALE = "`replicas: 2..6` with `scale`: the lower end is guaranteed, and `swarm autopilot` follows the load"
_USERS = "`users: [ada, bo]` are the members"
_QUOTA = "`limits: {gpus: 32}` is the most that it may have, `guarantee: {gpus: 8}` what is not taken from it"
_RESTART = "`restart: on-failure` starts it again, `restart: never` does not"
_GONE = "there is none: `priority: low` makes way for others, and who is not to be moved has `movable: false`"
_POWER = "budgets of power are on racks and hardware: `racks: {r1: {power: 20 kW}}`"
_APART = "`spread: node` keeps its replicas from each other, `apart: node` from other workloads, `away_from: [chat]` from these"
_WITH = "`only_with: [cache]` asks for nodes with a replica of that workload, `prefer_with: [cache]` prefers them"
_CORES = "`vcpus: 64` are all hardware threads; NUMA nodes are `numa: 2`"
_NIC = "`nic: 100 Gbit/s` is the bandwidth of its network card"
_DISKS = "`nvme: 4 TB` is the local disk for scratch and caches, `disk: /dev/nvme0n1` its device"
_SSH = "`ssh: root@{name}.example.org` says how it is reached; `{name}` stands for the node's name"
_SHAPE = "what a machine has is under `hardware`, by the name of its shape: `hardware: h100`"
_MIG = "MIG instances are part of `gpus`: `gpus: 1 x H100/1g.10gb`"
_PART = "a part of a GPU is written `gpus: 0.25 x H100`; it is time-shared and not isolated"
_NETWORK = "bandwidth is beside `each`: `network: {egress: 1 Gbit/s, ingress: 1 Gbit/s}`"
_SHELL = "a command is run without a shell: `run: {command: \"sh -c 'cd /data && exec python train.py'\"}`"

#: Where a key stands → words as others write them, without `_` and `-`, and in small letters → what to write.
_KEYS: dict[str, dict[str, str]] = {
    "": {
        "cluster name": "`fleet: lab` names the fleet",
        "jobs services deployments tasks pods apps applications groups": "what is to run is under `workloads`",
        "machines hosts servers inventory computers": "machines are under `nodes`: `nodes: {gpu-01: {hardware: h100}}`",
        "users accounts people members projects": "users are under their team: `teams: {research: {users: [ada, bo]}}`",
        "quotas quota qos": "quotas are `limits`, and those of one team `teams: {research: {limits: {gpus: 32}}}`",
        "partitions partition queues pools nodepools": "nodes have `labels` and `taints`, and work asks for them by `place`",
        "shapes instancetypes machinetypes flavors flavours profiles": "shapes of machines are under `hardware`",
        "defaults default": "there are none; an anchor repeats a part: `each: &small {gpus: 1}`, then `each: *small`",
    },
    "workloads.*": {
        "image container docker singularity apptainer": _CONTAINER,
        "resources requests limits": _HOLDS,
        "gputype gpumodel accelerator": _GPU_MODEL,
        "cmd script entrypoint exec args program": _COMMAND,
        "health healthcheck readinessprobe livenessprobe readiness probe check": _HEALTH,
        "nodes numnodes nnodes workers worldsize minavailable members": _GANG,
        "count instances array ntasks size num copies parallelism completions scaleto": _REPLICAS,
        "namespace account project group team owner": _OWNER,
        "partition queue nodeselector constraint constraints features affinity nodename nodelist labels": _LABELS,
        "timelimit timeout walltime deadline maxtime activedeadlineseconds ttl": _TIME,
        "retries maxretries backofflimit requeue restartpolicy": _RESTART,
        "volumes mounts disk storage scratchdir tmp": "directories are in `each`: " + _DISK,
        "autoscaling autoscale autoscaler hpa minreplicas maxreplicas": _SCALE,
        "qos priorityclass priorityclassname nice": "`priority` is `low`, `normal` or `high`",
        "preemptible spot preemptable interruptible": _GONE,
        "bandwidth net networking": _NETWORK,
        "antiaffinity podantiaffinity exclusive": "in `place`: " + _APART,
        "podaffinity colocate": "in `place`: " + _WITH,
        "workdir workingdir cwd": _SHELL,
        "type mode": "`kind` is `train`, `serve` or `batch`",
    },
    "workloads.*.each": {
        "cpu cpus cores vcpu threads cpuspertask": "`vcpus: 4`, and `pinned: true` for cores of its own",
        "mem ram memorygb mempercpu": "`memory: 16 GB`",
        "gpumemory gpumem vram gpuram memorypergpu": _GPU_MEMORY,
        "gputype gpumodel accelerator accelerators model gres": _GPU_MODEL,
        "mig migprofile profile": _MIG,
        "share shares gpushare fraction gpufraction": _PART,
        "disk storage tmp ephemeralstorage localdisk nvme ssd": _DISK,
        "bandwidth network net nic": _NETWORK,
        "pids processes maxprocesses": "`tasks: 4096` are its processes and threads",
        "limits requests resources": "a range has both: `vcpus: 2..8` guarantees 2 and allows 8",
        "image container": _CONTAINER,
    },
    "workloads.*.run": {
        "image container docker singularity apptainer": _CONTAINER,
        "cmd script entrypoint exec program args arguments": _COMMAND,
        "ports containerport": "`port: 8000`, one",
        "health healthcheck readinessprobe livenessprobe readiness ready probe check": _HEALTH,
        "environment envs variables vars": "`env: {HF_HOME: /data/hf}`",
        "workdir workingdir cwd dir directory": _SHELL,
        "user uid runas": _OWNER,
        "privileged securitycontext": "`confined: false` opens namespaces, mounts and kernel settings to it; root it never is",
        "secrets secret envfrom": "`env: {TOKEN: secret:TOKEN}` is read on the node",
    },
    "workloads.*.place": {
        "nodeselector constraint constraints labels features selector": "`select: {site: lab}` asks for a label",
        "affinity nodeaffinity preferred": "`select: {site: lab}` is required, `prefer: {site: lab}` preferred",
        "antiaffinity podantiaffinity exclusive distincthosts": _APART,
        "podaffinity colocate together with": _WITH,
        "tolerations toleration": "`tolerate: {dedicated: research}`",
        "topologyspreadconstraints maxskew skew": "`balance: {over: rack, skew: 2}`",
        "node nodes host hosts nodename nodelist": "give the node a label, and ask for it with `select`",
        "rack racks zone site sites switch switches samerack": "`within: rack` is one for all, `spread: rack` another for each",
        "nvlink": "`links: required`",
        "ntaskspernode perhost": "`per_node: 4`",
    },
    "workloads.*.time": {
        "warn warning": "the warning is the stop signal, so long before the limit: `stop: {signal: USR1, grace: 10 min}`",
        "signal grace": "`stop: {signal: USR1, grace: 10 min}` says how it is asked to end",
    },
    "solve": {
        "drf dominant dominantresource fairness maxtres priorityflags": "`share_by: dominant_resource` counts more than GPUs",
    },
    "teams.*": {
        "members member accounts people user": _USERS,
        "weight fairshare shares": "`share: 3` is its weight beside the others",
        "quota quotas gpus vcpus memory": _QUOTA,
        "parentaccount cohort": "`parent: science` is the team that it is inside of",
    },
    "limits": {
        "users account accounts": "`user: {gpus: 16}` holds for each user; another value for one of them is under `except`",
        "teams": "`team: {gpus: 64}` holds for each team; a team's own limits are `teams: {research: {limits: {gpus: 32}}}`",
        "exceptions overrides": "`except: [{user: bo, gpus: 24, until: 2027-01-31, reason: paper}]`",
        "fleet total": "`cluster: {gpus: 200}`",
        "power": _POWER,
    },
    "limits.cluster": {"power": _POWER},
    "limits.node": {"power": _POWER},
    "nodes.*": {
        "address host hostname ip ansiblehost ansiblessh addr url": _SSH,
        "gpus gpu cpus cpu vcpus memory mem nvme disk nic numa gres": _SHAPE,
        "shape type instancetype machinetype flavor model": _SHAPE,
        "features partition partitions pool roles role tags": "labels are free: `labels: {pool: research}`",
        "zone region datacenter": "`site: lab`",
        "status": "`state: drain`, `cordon`, `lost` or `ready`",
        "unschedulable maintenance": "`state: cordon` takes no new work, `state: drain` loses what it has",
        "tolerations": "a workload tolerates: `place: {tolerate: {dedicated: research}}`; a node has `taints`",
    },
    "hardware.*": {
        "cpu cpus cores threads sockets corespersocket threadspercore": _CORES,
        "mem ram realmemory": "`memory: 512 GB`",
        "gres accelerators accelerator gputype gpumodel": "`gpus: 8 x H100`",
        "ssd storage tmpdisk tmp scratch": _DISKS,
        "network bandwidth ethernet": _NIC,
        "nvlink nvswitch interconnect": "`links` says which GPUs are joined; `swarm discover` writes it",
        "sockets numanodes": _CORES,
    },
}

#: By the values that are known: others that people write → the one to write.
_VALUES: dict[frozenset[str], dict[str, str]] = {
    frozenset({"train", "serve", "batch"}): {
        "serve": "interactive notebook jupyter session service server inference deployment daemon endpoint web statefulset",
        "train": "training finetune finetuning pretrain pretraining learning pytorchjob mpijob",
        "batch": "job task array sweep script cronjob once oneshot",
    },
    frozenset({"low", "normal", "high"}): {
        "high": "urgent critical highest top important max production prod",
        "normal": "medium default standard middle regular",
        "low": "besteffort lowest idle background preemptible spot scavenger min",
    },
    frozenset({"gpus", "dominant_resource"}): {
        "dominant_resource": "drf dominantshare dominantresourcefairness maxtres all everything",
        "gpus": "tres cards devices",
    },
}
_STATES = {
    "a machine that is off for sure is `lost`; `drain` moves its work away first": (
        "down off offline fail failed failing broken error unreachable"
    ),
    "write `lost`": "dead",
    "write `ready`": "up idle online on active enabled resume undrain uncordon",
    "write `drain`: all work leaves; `cordon`: what runs stays": "maintenance maint disabled reserved unschedulable",
}


def hint_for_key(loc: tuple[Step, ...], key: str) -> str:
    """What to write in place of `key`, which the mapping at `loc` does not know. Empty: it is no word of others."""
    return _KEY.get(_path(loc), {}).get(_plain(key), "")


def hint_for_value(given: str, known: Iterable[str]) -> str:
    """What to write in place of a value, of which `known` are right. Empty: it is no word of others."""
    names = frozenset(known)
    return _VALUE.get(names, {}).get(_plain(given), "") or (_STATE.get(_plain(given), "") if "drain" in names else "")


def hint_for_switch(key: Step) -> str:
    """What to write where true or false stands for something that is none. Empty: nothing better is known."""
    return {
        "gang": "`gang: 4` is how many members run together, in place of `replicas`",
        "spread": "`spread: node`, or rack or site: no two replicas on the same",
        "within": "`within: node`, or rack or site: all replicas in one",
        "apart": "`apart: node`, or rack or site: no other workload with `apart` there",
        "links": "`links: required`",
        "numa": "`numa: single`",
        "restart": "`restart: on-failure` starts it again, `restart: never` does not",
    }.get(str(key), "")


def _path(loc: tuple[Step, ...]) -> str:
    steps = [str(step) for step in loc]
    if len(steps) > 1 and steps[0] in _NAMED:
        steps[1] = "*"
    return ".".join(steps)


def _plain(word: str) -> str:
    return re.sub(r"[_\s-]", "", word[:60]).lower()


def _spelled(table: dict[str, str]) -> dict[str, str]:
    return {word: hint for words, hint in table.items() for word in words.split()}


_KEY = {path: _spelled(table) for path, table in _KEYS.items()}
_VALUE = {
    known: {word: f"write `{right}`" for right, words in table.items() for word in words.split()}
    for known, table in _VALUES.items()
}
_STATE = _spelled({words: hint for hint, words in _STATES.items()})
