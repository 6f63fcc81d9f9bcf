"""What does the reference of the stack file say of workloads, besides the descriptions of their keys?"""

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

**Which GPUs a job sees**: `CUDA_VISIBLE_DEVICES` and `NVIDIA_VISIBLE_DEVICES` name the cards of the replica, and no others,
by their UUIDs, which the node asks of the driver when it makes the unit: numbers of cards change when one dies or the machine
boots. The order is that of `NCCL_TOPO_FILE`: by NUMA node, PCIe switch and address, and `cuda:0` is the first. Another card
in the same slot is drift, and `swarm up` starts the job again with its name. A shared card is named to each who has a part,
MIG instances are named `MIG-…`, and a job without GPUs gets `-1`. The check refuses these variables in `run.env`; a command
may set them for itself. A program that takes numbers only, as vLLM did until at least 0.20, finds them in `SWARM_GPUS`:
`command: "sh -c 'CUDA_VISIBLE_DEVICES=$SWARM_GPUS exec vllm serve MODEL'"`.

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

**With others**: `place: {prefer_with: [cache]}` brings new replicas to nodes where `cache` has one, `{rack: [cache]}` to racks,
and a new `cache` to where most of those are that have none. It is a preference as well. Each workload that is named counts one
for each replica without it; the proof shows the sum as `alone`, after `near`. Two may name each other.

**Only with others**: `place: {only_with: [cache]}` demands it: a new replica is pending where no node with a `cache` has
capacity, and what is new comes in one change with the `cache` that it needs. What runs stays, also when `cache` has to leave:
nothing is stopped for this rule. As long as others run with it, `cache` is not moved for others; it goes elsewhere only where
it has to leave or would stop. Who stops for whom is by priority alone, so give what others depend on at least theirs.

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

What runs keeps its variant, also where another one is written before it, since another one is a restart. (Of variants that
differ in nothing but `run` the first is taken to run where the lock names none.) `on_variant` says when it may change:
`now` (a service with `on_update: roll`): it becomes lighter if that places more, and returns to a preferred one once that
fits and no other workload moves or stops; `spare` (a service that surges): it returns where one replica more fits
meanwhile, and never becomes lighter while it runs; `restart` (all others): only when it starts anyway, because its node is
drained or lost, its slot went to a higher priority, or its own request changed. Several replicas change as in any update,
by `on_update`. A finished job keeps the variant that it ran in. The lock file has the variants that are not the first,
`swarm plan`, `solve` and `what-if` have a table of them, and `swarm why` says what keeps the first out and what would place
it.

**`needs`** takes the place of `replicas`: how much work all replicas together have to do, with `speed` saying how much one does
on each GPU model, as measured ([`swarm speed`](telemetry.md#measured-speed)).
Both are rates in one unit of your own (`25 kTok/s`, `40 req/s`), or plain numbers (`needs: 4`,
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
