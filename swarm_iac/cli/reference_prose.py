"""What does the reference of the stack file say beside its tables of keys? A text for each section, the head and the tail."""

HEAD = """\
# The stack file

<!-- Written by `swarm schema --markdown > docs/stack-file.md`; edit swarm_iac/cli/reference_prose.py or the descriptions in
     swarm_iac/model/ instead. -->

One file describes one fleet: who shares it, which machines there are, and what runs on them. `swarm validate FILE` reports
every mistake in it, with line, column and a hint. The first line lets an editor check it as you type:

    # yaml-language-server: $schema=../stack.schema.json        (swarm schema > stack.schema.json)

[examples/](../examples/) has complete files.

## Form

- YAML in UTF-8, one document, at most 1 MB. Anchors and aliases work; tags, merge keys (`<<`) and tabs as indentation
  are refused. Duplicate keys and keys that are not listed here are mistakes.
- **Names** consist of lowercase letters, digits and single hyphens, start with a letter, and have at most 40 characters.
  **Accounts** are Unix accounts of at most 32 characters.
- `true` and `false` are allowed only for switches; a date is written `2027-01-31`.
- Sections may come in any order, and all but `fleet` are optional.

"""

NODES = """\
**Ranges.** `gpu-[01-08]` stands for `gpu-01` to `gpu-08`; `gpu-[01,03,05-07]` and `r[1-2]-n[01-04]` work too. Numbers are
as wide as the lower end is written. One entry may name at most 10,000 nodes.

**Later entries refine earlier ones.** An entry with `hardware` defines nodes; two of these may not name the same node. An
entry without `hardware` changes nodes defined above it, key by key; its labels and taints are added to theirs.

**`{name}`** in `ssh` is the node's name: `ssh: "root@{name}.example.org"`. Every node needs an `ssh` in the end. Without a
`state` it is `ready`.

**`site`** is where the node is, as a name. For `place`, a node is in one rack and a rack in one site: a node without a rack
is a rack of its own, and a rack without a site a site of its own. Where a workload counts by site, a rack in two sites is a
mistake.

**`taints`** keep new work off a node unless it tolerates all of them (`place.tolerate`), as taints of Kubernetes with the
effect NoSchedule do. What already runs there stays, also when it restarts or changes its size; nothing else comes, and what
belongs to another user now is new. A taint may be reserved for teams: workloads of other users that tolerate it are a mistake
in the file.

    gpu-[01-08]: {hardware: h100, ssh: "root@{name}.example.org", taints: {dedicated: research}}
    gpu-[07-08]: {taints: {dedicated: {value: research, teams: [research]}}}

    fine: {user: ada, each: {gpus: 8}, place: {tolerate: {dedicated: research}}}      # or "*": any value of the key

**`state`** is `ready`, `cordon` (no new work, running work stays), `drain` (all work leaves) or `lost` (given up: its work
may start elsewhere). An entry with a `state` replaces `reason` and `drain_by` from above as well. With **`drain_by`**, a
time with its zone, the node is cordoned until then, so that jobs may finish; the first `up` after it moves what is left,
services and jobs alike. `swarm drain`, `swarm cordon` and `swarm ready` write these.

    gpu-[01-08]: {hardware: h100, rack: r1, ssh: "root@{name}.example.org"}
    gpu-07: {state: drain, reason: fan}
    gpu-08: {state: drain, drain_by: 2027-01-31T08:00Z, reason: new disks}
"""

LIMITS = """\
All levels apply at once: the sum over a user's allocations, over those of a team with all teams inside it, over those on a
node, and over the fleet. Values that a stack file does not set keep their defaults from `policies/limits.yaml`:

%s

`bandwidth`, `licences` and `replicas` have no limit by default. No machine has licences: the limit of the cluster says how
many there are, as in `cluster: {licences: 40}, user: {licences: 8}`, and a job releases them when it ends. `replicas` limits
how many replicas run at a time, each member of a gang included; one that has finished does not count. A workload whose
smallest request exceeds a limit is a mistake in the file; one that does not fit what is left of it stays pending, and
`swarm why` names the limit.

**`team`** is the limit of each team that sets none of its own under `teams.NAME.limits`, key by key. A team that has others
inside it counts what all of them hold, so it needs a limit of its own where that of each team is too small for it. `swarm
limits` shows the tree, with what is used of each limit. A user's work counts in the team that the user is in now: with a
change of `teams`, what runs counts in the new team at once, and its old one has that much more left. Nothing is stopped for
it; where the new team then holds more than its limit, nothing is added until less is held.

**`gpus_by_model`** limits the GPUs of single models, beside `gpus`, at each level but `node`:

    user: {gpus: 16, gpus_by_model: {H100: 8, L40S: 16}}

A replica takes from the limit of the model of the node where it runs, a part of a GPU as much as it is. So a workload that may
run on several models (`each: {gpus: "2 x H100|L40S"}`, or `gpus: 2`) goes where its limits leave some. A model that is not
named has no limit of its own; neither have GPUs of `hardware` without a model. In `limits.team`, `teams` and `except` each
model is replaced by itself. Where more of a model is held than the limit, that keeps running, and nothing is added on it.

An entry of **`except`** replaces values for one user or one team until its last day. If several apply, the largest value
counts. After that day nothing of theirs may be added or grow; running work is not stopped.

    except:
      - {user: bo, gpus: 24, until: 2027-01-31, reason: paper deadline}
      - {team: research, gpus: 64, until: 2027-01-31, reason: paper deadline}
"""

TEAMS = """\
A user is in one team, and a team may be inside another one, its `parent`, up to eight deep. `limits` of a team hold for all
that its users and those of the teams inside it hold together:

    science:  {limits: {gpus: 48}}
    research: {users: [ada, bo], parent: science, limits: {gpus: 32}}
    vision:   {users: [cy], parent: science, limits: {gpus: 32}}

research may have 32 GPUs, vision as well, and both together 48. Which limits there are, and what all teams have that set none,
is described under [`limits`](#limits).

**Shares.** As soon as any team has a `share` or a `guarantee`, GPUs are shared by teams when not all requests fit; a team that
says none has share 1. Priorities still come first. Within a priority each team is *due* GPUs in proportion to its share, but no
more than it asks for or may have: what it leaves is divided among the others in the same way, and so on until nothing is left
(weighted max-min fairness). Teams inside one divide what that one is due; users of a team that has teams inside it count as one
more of those, of share 1. What a team holds at a higher priority counts, too.

    vision: {users: [ada], share: 3}
    speech: {users: [bo], share: 2, guarantee: {gpus: 4}}

First GPUs are placed that are due, then whatever else fits: a share that is idle is **lent**. `guarantee` is in GPUs and comes
before shares: up to it, what the team has running is stopped for no other team, not even for a higher priority. It does not
keep idle GPUs free; others use them until then. With `solve: {reclaim: true}` a running replica that is lent is stopped for a
team that has less than it is due, and the plan names both; that brings no team below what it is due. Without it, nobody is
stopped for his equals, and who is owed GPUs gets them as jobs end. These are goals: a search that is cut may miss them, and
then the proof shows a gap; the plan names every stop in any case. What is due is in whole GPUs, and replicas cannot be
divided: a team may be above or below it by less than one replica. Each GPU counts as one, unless [`worth`](#worth) says
otherwise. `swarm shares` shows the arithmetic. GPUs alone are shared so; everything else goes by priority, and by what fits.
"""

RACKS = """\
Every placement respects both. `uplink` bounds what a rack's allocations reserve, in each direction. `power` bounds the power
limits of all GPUs in the rack, used or not: the `gpu_power` of each node's `tuning`, or of the workload if that is higher.
GPUs without a power limit count as 0. If the tuning alone exceeds the budget, the file is wrong.

Of a range, `gpu_power: 400..500 W`, the lower end is counted, so more fits into the rack. What the budget leaves above that
is given to all ranges of the rack, the same part of each. Where tunings say what a GPU loses at its lower end
(`gpu_power_loss: 8`), those that lose most by a watt less get theirs first, so that the least speed is lost; plans and `swarm
why` show how much. An example: 16 such GPUs and 8 kW, so each may draw 500 W. A job that brings `gpu_power: 700 W` for four
of them leaves 5.2 kW to the other twelve, which is 433 W each. Limits change while work runs, and in a rack they fall before
others rise. A machine may have a budget of its own, `power` of its [`hardware`](#hardware); both hold.
"""

PRICES = """\
What one GPU of a model costs while it is allocated: an amount with at most four decimals, a currency of three letters,
and `/h`. All prices of a file use one currency. With prices, every plan shows the cost of the fleet per hour before and
after, and `swarm what-if` shows it for a hypothetical change. A model without a price counts as 0 and is listed. Prices
never influence the placement.

    prices: {H100: 2.50 EUR/h, L40S: 0.80 EUR/h}
"""

WORTH = """\
How many GPUs one of a model counts as where [teams share](#teams) them: by its speed, its price, or whatever the teams agree
on. A model that is not named counts as 1. Then a team holds Σ worth · GPUs, and Σ worth · GPUs of the fleet is shared.
`guarantee` counts the same way; limits stay in GPUs.

    worth: {H100: 2, A100: 1, L4: 0.25}

With at most three decimals, more than 0 and at most 1000. What is due is exact, in the smallest steps that GPUs of the fleet
add up to. A request that takes several models is counted as if it got those that count most, so beside others a team may be
due more than it can have. `worth` changes who gets GPUs when not all requests fit, and nothing else.
"""

PAST_USE = """\
Without it a team is due its share whatever it had last week. With it, a team that used more than the others is due less until
that is evened out. Among the teams that are beside each other

    counted share = share / (1 + (use / use of all) / (share / shares of all))

in thousandths: in full for a team that used nothing, a half for one that used just its share, a third for twice as much.
Guarantees and limits are not touched, and nothing is stopped for it unless `solve.reclaim` says so. `swarm shares` shows the
arithmetic.

    past_use:
      until: 2026-11-01
      half_life: 7 d
      gpu_hours: {vision: 1250, speech: 310}

`swarm usage --past-use` writes it from what was recorded ([usage](usage.md)); it takes effect by a commit, as everything does.
The solver reads `gpu_hours` alone; the rest says where they come from.
"""

WORKLOADS = """\
A workload without `run` is a reservation: its slice, GPUs and directories are set up, and its user enters with
`swarm shell WORKLOAD`. With `run` it is started as its user, never as root, in a slice that sees only its own GPUs.

| `kind` | how it moves | when its process ends |
|---|---|---|
| `train`, `batch` | stops, then starts on the new node | stays ended, and its resources go to pending work |
| `serve` | becomes healthy on the new node, then stops on the old one | starts again |
| any, with `gang` | all members stop, then all start | as its kind |

While it runs, these change without a restart: clocks and power, CPU shares, memory, bandwidth, I/O limits, quotas. These
need one: other GPUs, other NUMA nodes (additional ones do not), another command, environment or user.

**A part of a GPU**: `gpus: 0.25 x H100` places a replica on one card beside others, as long as their parts add up to at
most 1. Whole cards are never shared. Parts are **time-shared and not isolated**: the processes take turns on the card, each
sees all of its memory, and one that takes more than its part can make the others fail. Share a card between jobs that trust
each other. The job finds its part in `SWARM_GPU_SHARE` and its part of the memory, in bytes, in `SWARM_GPU_MEMORY`;
most frameworks can be held to it (`torch.cuda.set_per_process_memory_fraction`, `XLA_PYTHON_CLIENT_MEM_FRACTION`). Limits
and prices count a part as much as it is. Clocks and power of a shared card are those of its node, so `gpu_clock` and
`gpu_power` need whole GPUs. A part has up to three decimals, and a change of it is a restart.

**MIG instances**: `gpus: 2 x H100/1g.10gb` gives each replica two instances of this profile, on nodes whose hardware says `mig:
true`. Instances are **isolated**: each has memory and compute slices of its own, and a job can open its own alone. The solver
decides which card is cut and where each instance lies, by the positions that NVIDIA publishes for each profile; a node cuts the
card for the first instance and makes it whole after the last. A card is whole, shared by parts, or cut. What runs keeps its
instance while others come and go beside it, and a card on which anybody else computes is not cut. Only where the free slices
are not side by side may an instance that runs be moved: it restarts, which counts in `solve.moves`. The job finds its instances
in `CUDA_VISIBLE_DEVICES` as `MIG-…`; a CUDA process uses the first. Limits and prices count an instance as its part of the
memory of the card: `1g.10gb` is an eighth of an H100. `gpu_clock`, `gpu_power`, `movable: false` and `numa: single` need whole
GPUs. `A100/1g.10gb` is an eighth of a card of 80 GB; on one of 40 GB ask for `1g.5gb` or `2g.10gb`.

    chat: {user: ada, kind: serve, replicas: 4, each: {gpus: 1 x H100/1g.10gb}, run: {command: serve}}

**Linked GPUs**: `links` of `hardware` says which GPUs NVLink joins; `swarm discover` writes it from what NVML tells of links
that are up. `place: {links: required}` gives each replica GPUs of one group, else it is pending; with `numa: single` as well,
those of the group that are on one NUMA node. Other workloads get linked GPUs where that costs nobody a place, then GPUs behind
one PCIe switch, and single GPUs are taken where they break up the smallest group. A NUMA node comes before links there: a
replica that fits on one is not spread over two for a bridge. A machine on which a declared link is down is treated as any
other that is not what `hardware` declares: nothing stops, and it gets no new work until the link is back or the declaration
is corrected.

**Balance**: with `place: {balance: rack}` no rack has more than one replica more than another one (`maxSkew: 1` with
`DoNotSchedule` of Kubernetes); `{over: rack, skew: 2}` allows two, and `site` compares sites. Compared are racks with a
**ready** node that suits the workload (labels, taints, GPU model, size) and could hold a replica if nothing else ran there;
with `within: site` only those of its site. A node without a rack is a rack of its own. So a rack that is full counts, and
holds the others back: `swarm why` names it, and offers a larger `skew`. A rack in which all nodes are drained, cordoned or
lost does not count. It is a rule for what is new: what runs stays where it is, in a rebalance too, if an edit, a lost node or
a smaller `replicas` leaves racks further apart, and then nothing new comes to the fuller ones.

**Near**: with `place: {near: rack}` what is new of the workload comes to as few racks as possible, those where it is already
first; `site` means sites. It is a preference, the soft counterpart of `within`: nothing is pending, moved or stopped for it,
and it decides only among placements that place, keep and move the same. The proof shows `near`, the racks beyond the first
one that each workload uses, and how few there could be. `swarm rebalance` does move for it.

**Prefer**: `place: {prefer: {disk: fast}}` is the soft counterpart of `select`: new replicas come to nodes with these labels
where that costs nothing that comes first. Each label counts one for each replica whose node lacks it; the proof shows the sum
as `preferred`. `near` comes before it. `prefer_apart: rack` (`node`, `site`) is that of `apart`: workloads that say so come to
racks without another one of them; the proof shows as `beside` how many do not, between the other two.

**A range** in a request, `vcpus: 2..8` or `egress: 1..10 Gbit/s`, guarantees its lower end and allows its upper end.
Everything that is counted counts the guarantee: what fits on a node, an uplink, limits, locks. The rest is lent by the
kernel while others leave it idle, and taken back within milliseconds (CPU) or a second (network, each direction by itself);
what is idle is shared in proportion to the guarantees. Both ends change without a restart, and a change of the upper one
never moves anything. `vcpus: 4` is `4..4`: its upper end is 4 as well. Pinned cores are lent to nobody, so `pinned` takes
no range. Size thread pools by the upper end, which a job finds in `cpu.max` of its cgroup, as in a container: threads too
many wait their turn, and threads that do not exist borrow nothing.

**`memory: 64..128 GB`** is lent with more care, because memory that a process has written cannot be taken back from it
(nodes have no swap): lent is only what is **free on its node**, guaranteed to nobody, in proportion to the guarantees (if
its memory is bound to NUMA nodes, of what is free there). So the sum of what all may use is never more than the machine
has, and nobody is killed for what somebody else does. What each may use is shown in the plan and stands in `memory.max` of
its cgroup; every `swarm up` may change it, live. Where that is less than all of them may use, the node itself moves what one
of them leaves idle to another that needs it, within the same sum and within seconds; `swarm plan` shows it as live. When a
newcomer needs the memory, the kernel first reclaims what was only read (page cache). If the borrower has **written** more
than it may keep, it keeps it, nothing is killed, and the newcomer waits: `up` says for whom, and the next one tries again.
So a job that writes all that it is lent should be one that lets go of it, or ends.

**`io`** is what a replica may do on the disk of its node. Of `read: 100..500 MB/s` the lower end is counted: on each node the
lower ends add up to at most what its `hardware` says of the disk (`disk_read`, `disk_write`, `disk_iops`), and `limits` count
them as `io` and `iops`. The upper end is enforced by the kernel (io.max), also while others leave the disk idle. One value is
both. Where hardware says nothing of its disk, nothing is guaranteed there, and the ceiling alone holds. Between those who use
the disk at once it is divided by io.weight, in proportion to what is guaranteed; the kernel does so where `io.cost` is on for
that disk or it has the scheduler BFQ. `iops` holds for reads and for writes, each. A change of it restarts nothing.

**`hugepages`** (of 2 MiB) and **`hugepages_1g`** are beside `memory`, not part of it. `hardware` says how much of a machine's
memory is kept in them for workloads: the rest is what `memory` is counted from. Where it says so, each slice there has a
limit (hugetlb): what it asked for, and none for who did not ask. A job maps them with `MAP_HUGETLB`; it gets no more, and the
pages of others are not taken by mapping them first. The kernel spreads a pool evenly over NUMA nodes, and pages are counted
for the node as a whole: who is bound to one NUMA node may find fewer there. A pool that is in use does not shrink: the step
fails, nothing is killed, and `swarm up --retry` tries it again when the pages are free. Pages of 1 GiB need as much unbroken
memory, so a machine that ran for long may not have them before its next boot. What the machine itself needs of them, for a
switch in user space, is under `tuning`, beside these.

**`time`** limits one run of a job, from its start; after a failure (`restart`) or a reboot it counts from zero. `time: 12 h`
is the limit alone: by then the run is over. The node enforces it without the controller: `stop.grace` before the limit the
job gets `stop.signal`, as at any stop, and at the limit it is killed. A job that needs ten minutes to save writes
`stop: {signal: USR1, grace: 10 min}`. It then counts as failed, releases its resources, and is not started again.
`past: report` stops nothing: `swarm ps`, `status` and `plan` list what is past its limit. `expected` is only informative.
From both, `swarm why` and `swarm plan` estimate when pending work could start. Changing `time` restarts nothing.

    fine: {user: ada, time: {expected: 6 h, limit: 12 h}, stop: {grace: 10 min}, each: {gpus: 8}, run: {command: train}}

**Variants** are forms of one workload in order of preference: another precision, a LoRA in place of a full fine-tune, another
parallel layout. Each says what it changes of `each`, `network`, `run` (variables of `env` are added), and `replicas` or `gang`;
the rest is as the workload says. All replicas run in one variant. The first is taken unless a lighter one **places more**: this
workload itself, or others of its priority or above; `lighter_for: low` lets it become lighter for lower priorities as well. Of
the choices that place as much, the one that loses the least `worth` is taken, in thousandths, and among equals the first in the
list. Where that is decided by solving, and how it is proven: [solver.md](solver.md#variants).

    chat:
      user: cy
      kind: serve
      on_update: roll
      replicas: 2
      each: {gpus: 2 x H100, memory: 64 GB}
      run: {command: serve --model m, env: {DTYPE: bf16}}
      variants:
        bf16: {}
        int8: {worth: 0.95, each: {gpus: 1 x H100}, run: {env: {DTYPE: int8}}}

What runs keeps its variant, since another one is a restart. `on_variant` says when it may change: `now` (a service with
`on_update: roll`): it becomes lighter if that places more, and returns to a preferred one once that fits and no other
workload moves or stops; `spare` (a service that surges): it returns where one replica more fits meanwhile, and never becomes
lighter while it runs; `restart` (all others): only when it starts anyway, because its node is drained or lost, its slot went to
a higher priority, or its own request changed. Several replicas change as in any update, by `on_update`. A finished job keeps
the variant that it ran in. The lock file has the variants that are not the first, `swarm plan`, `solve` and `what-if` have a
table of them, and `swarm why` says what keeps the first out and what would place it.

**`needs`** takes the place of `replicas`: how much work all replicas together have to do, with `speed` saying how much one does
on each GPU model, as measured. Both are rates in one unit of your own (`25 kTok/s`, `40 req/s`), or plain numbers (`needs: 4`,
`speed: {H100: 1.0, A100: 0.52}`). Each way to meet it is a variant, in order of cost by `prices` (without prices, of GPUs): on
one model, the fewest replicas that are enough, ⌈needs / speed⌉; then, for where no model has enough alone, so many on any of
them, the fewest with which it is enough where they come to. A mix is not the cheapest there is: to save GPUs, name one model.
Variants that are named after models are in the lock file and in all answers as others are; `on_variant` and `lighter_for` hold
for them. `needs` beside `replicas`, `gang`, `scale` or `variants` is refused.

    chat:
      user: cy
      kind: serve
      needs: 100 kTok/s
      speed: {H100: 25 kTok/s, A100: 15 kTok/s}     # four H100, or seven A100
      each: {gpus: 1, memory: 32 GB}
      run: {command: serve}

**`place.away_from`** keeps a workload off nodes (racks, sites) with a replica of another one, and that one off its nodes as
well. It holds for what runs too, as `apart` and `spread` do: if two that run together are separated, the one of lower priority
leaves, else the smaller one. A name that the file does not have is a mistake.

**`movable: false`** keeps a running replica where it is: no change and no rebalance moves it to place or to improve something
else, as if `solve.moves` were 0 for it. It leaves its node only if that is drained, lost or no longer suits it, by a change of
its own, or if a **higher priority** takes its slot: then it stops, is pending with the code `Moves`, and the next change may
place it elsewhere. It counts for a change, not for a placement: a lock that shows it on another node is not refused. `swarm
why`, `plan` and `rebalance` name what is not moved where it is in the way. Parts of a GPU and MIG instances cannot have it.

`env` values `secret:NAME` are read on the node, from `/etc/swarm/secrets/NAME`, which only root can read and operators
fill. They never appear in a stack, lock, state or log.
"""

SOLVE = """\
`moves` counts replicas that could have stayed; what a drain forces to leave is not counted. A replica that loses its slot
to a higher priority and goes elsewhere counts as well: beyond the budget it is pending, with the code `Moves`, and the next
change has the full budget again. `reclaim: true` lets what a team runs beyond its share be stopped for teams that have less
than theirs, also where it is `movable: false`: see [`teams`](#teams). Such stops count in `stops`. Less effort never gives a
wrong answer, only perhaps one that is not proven optimal. The same inputs give the same placement on every machine.
"""

TAIL = """\
## Not available yet

These are part of the design; a file that uses them is either refused (an unknown key) or read without effect.

| what | now |
|---|---|
| `datasets`, a workload's `data` | refused |
| `needs` beside `variants` | refused |
| speeds that are measured by swarm itself | given by hand |
| lending memory that is guaranteed to others and idle (overcommitment) | never: it could not be taken back without a kill |
| `on_shrink` | refused |
| MIG profiles with media extensions (`1g.10gb+me`), models other than A30, A100, H100, H200 and B200 | refused |
| the upper end of `replicas: 2..6` | the lower end is placed |
"""

#: By section. That of limits stands before the table of what all have that set none.
RIGHTS = """\
`swarm rights` shows them with their accounts; [pull requests](pull-requests.md) says how they are judged.

```yaml
rights:
  accounts: {ada: ada-lovelace}              # user -> account at the forge, where they differ
  owners:                                    # the first rule that names a path decides
    - {paths: ["workloads.*"], by: own}      # of each workload, its user
    - {paths: [teams.research.limits], by: [team research]}
    - {paths: [nodes, hardware, tuning], by: [dana, team operations]}
    - {paths: [rights, teams, limits, solve], files: [.github/, policies/], by: [cy]}
```

A path is compared as the file is understood: aliases and ranges of nodes are written out, and defaults left out. What no rule
names is for those who may change `rights`, so a key that a later version brings is closed, too. Some rule has to name `rights`.
A pull request that stops, moves, restarts or shrinks an allocation of another user needs the approval of that user or
of somebody else in their team, whatever the paths say. `own` includes no higher priority than before, since that is a
claim over others: those who may change `limits.cluster` have to approve it, unless a rule names `workloads.*.priority` itself.
"""

TELEMETRY = """\
Each node then has an exporter for Prometheus, whose values bear the names of those who hold what is measured; `swarm top` reads
them over ssh. `telemetry: {}` is enough for that. The port answers `scrapers` and nobody else; [telemetry](telemetry.md) says
what is measured and what it costs.

    telemetry: {scrapers: [10.0.0.5]}
"""

SECTIONS = {
    "telemetry": TELEMETRY,
    "rights": RIGHTS,
    "teams": TEAMS,
    "nodes": NODES,
    "racks": RACKS,
    "prices": PRICES,
    "worth": WORTH,
    "past_use": PAST_USE,
    "workloads": WORKLOADS,
    "solve": SOLVE,
}
