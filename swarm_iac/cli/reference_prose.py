"""What does the reference of the stack file say beside its tables of keys? A text for each section, the head and the tail."""

from swarm_iac.cli.workload_prose import WORKLOADS

HEAD = """\
# The stack file

<!-- Written by `swarm schema --markdown > docs/stack-file.md`; edit swarm_iac/cli/reference_prose.py, workload_prose.py or the
     descriptions in swarm_iac/model/ instead. -->

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
`swarm why` names the limit. The smallest request of a service is all of its replicas, or the lower end of their range; of a
gang all members; of a job that ends one replica, so a sweep of 400 may run 16 at a time, and the next `swarm up` starts others
in place of those that have ended.

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
before shares: up to it, what the team has running is stopped for no other team, not even for a higher priority. Work
of the team itself takes the place of what it runs if its priority is higher and it holds as many GPUs. It does not
keep idle GPUs free; others use them until then. With `solve: {reclaim: true}` a running replica that is lent is stopped for a
team that has less than it is due, and the plan names both; that brings no team below what it is due. Without it, nobody is
stopped for his equals, and who is owed GPUs gets them as jobs end. These are goals: a search that is cut may miss them, and
then the proof shows a gap; the plan names every stop in any case. What is due is in whole GPUs, and replicas cannot be
divided: a team may be above or below it by less than one replica. Each GPU counts as one, unless [`worth`](#worth) says
otherwise. `swarm shares` shows the arithmetic. GPUs alone are shared so; everything else goes by priority, and by what fits.

**By dominant resource.** With `solve: {share_by: dominant_resource}` that is so for everything that machines have. A replica
counts as many GPUs as the largest part of the fleet that it takes, of any resource: one with a tenth of the memory counts as a
tenth of the GPUs (dominant resource fairness), and never less than its GPUs, by `worth` if there is any. What a team holds is
the sum of its replicas, so work without GPUs counts as well, and with `reclaim` it may be called back. Each team is due the
same for its share, until something that it needs is used up; `swarm shares` says what that is. `guarantee` counts in the same
way, and limits are what they were. Teams inside one may be due less together than that one alone could have: then it is due no
more than they.
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

SITES = """\
Nodes say where they are with `site`. Where this section is left out any name will do there, and nothing between sites is
bounded.

`links` bounds what gangs send from one site to another (`network.between`). Of a gang with members in two sites that is as much
as the fewer of them send and receive: of six members in `berlin` and two in `paris` with `between: 20 Gbit/s` it is 40 Gbit/s,
each way. All gangs together keep below the bandwidth of the link; one for which too little is left comes to one site, or is
pending, and `swarm why` names the link. Each two sites have one link, said at either end. Two without one are not bounded, and
neither are nodes without a `site`. What is counted is the guarantee, as everywhere; nodes shape what each member sends, and no
node knows who receives it.

    sites: {berlin: {links: {paris: 100 Gbit/s}}, paris: {}}
"""

PRICES = """\
What one GPU of a model costs while it is allocated: an amount with at most four decimals, a currency of three letters,
and `/h`. All prices of a file use one currency. With prices, every plan shows the cost of the fleet per hour before and
after, and `swarm what-if` shows it for a hypothetical change. A model without a price counts as 0 and is listed. Prices
influence the placement of nothing but [`needs`](#workloads), which prefers the cheapest model that has capacity.

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
    "sites": SITES,
    "prices": PRICES,
    "worth": WORTH,
    "past_use": PAST_USE,
    "workloads": WORKLOADS,
    "solve": SOLVE,
}
