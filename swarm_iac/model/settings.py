"""Which settings can a node have, how are they written in a stack file, and how does the machine hold them?

Each key of `tuning` says so itself, by what stands beside its type: `Kernel` for a setting of /proc/sys, `Held` for any
other. What the machine should hold, the rows of a preview and the units in a plan are derived from that. The node program
runs without this package: how a `Held` setting is read and written on the machine stands in its concerns/settings.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from swarm_iac.model.base import Value
from swarm_iac.units import Bytes, Hertz, PowerRange

#: Sizes of huge pages. [bytes]
HUGE_PAGE, GIANT_PAGE = 2 * 2**20, 2**30


@dataclass(frozen=True)
class Kernel:
    """The setting of /proc/sys with this name."""

    name: str


@dataclass(frozen=True)
class Held:
    """A field of SettingsState: what the machine holds for a value of the stack file, and how people read that."""

    field: str
    of: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], str] = str


def _missing(value: object) -> bool:
    """Nothing is written of a key that is not there, so that what is on record without it stays as it is."""
    return value is None


class Tuning(Value):
    """Named settings of a node. What is left out is not touched."""

    gpu_power: PowerRange | None = Field(
        default=None,
        description="Power limit of each GPU. A range, `400..500 W`, is lowered to fit the `power` of node and rack.",
    )
    gpu_power_loss: int | None = Field(
        default=None,
        ge=1,
        le=99,
        exclude_if=_missing,
        description="Speed that a GPU loses at the lower end of that range, in percent; in between in proportion.",
    )
    gpu_clock: Hertz | None = Field(default=None, description="Locked graphics clock of each GPU.")
    gpu_persistence: bool | None = Field(default=None, description="Persistence mode of each GPU.")
    governor: Annotated[
        Literal["performance", "powersave", "schedutil", "ondemand", "conservative"] | None, Held("governor")
    ] = Field(default=None, description="CPU frequency governor, where the machine has one.")
    tcp: Annotated[Literal["cubic", "bbr", "reno"] | None, Kernel("net.ipv4.tcp_congestion_control")] = Field(
        default=None, description="TCP congestion control."
    )
    hugepages: Annotated[
        Bytes | None, Held("hugepages_2m", of=lambda size: int(size) // HUGE_PAGE, read=lambda pages: f"{pages} x 2 MiB")
    ] = Field(
        default=None,
        description="Memory in 2 MiB huge pages; workloads cannot use it otherwise.",
    )
    hugepages_1g: Annotated[
        Bytes | None, Held("hugepages_1g", of=lambda size: int(size) // GIANT_PAGE, read=lambda pages: f"{pages} x 1 GiB")
    ] = Field(
        default=None,
        exclude_if=_missing,
        description="The same in huge pages of 1 GiB.",
    )
    transparent_hugepages: Annotated[Literal["always", "madvise", "never"] | None, Held("transparent_hugepages")] = Field(
        default=None,
        description="Whether the kernel uses huge pages always, where a program asks for them (madvise), or never.",
    )
    swappiness: Annotated[int | None, Kernel("vm.swappiness")] = Field(default=None, ge=0, le=200, description="vm.swappiness.")
    sysctl: dict[
        Annotated[str, Field(pattern=r"^[a-z0-9_]+([./][A-Za-z0-9_-]+)+$", max_length=80)],
        Annotated[str, Field(pattern=r"^[A-Za-z0-9 ._-]+$", max_length=80)] | int,
    ] = Field(default={}, description="Any other kernel setting by its name.")

    @model_validator(mode="after")
    def _a_loss_is_of_a_range(self) -> Tuning:
        if self.gpu_power_loss is not None and not (self.gpu_power is not None and self.gpu_power.open):
            raise ValueError("`gpu_power_loss` is of a range, such as `gpu_power: 400..500 W`; one value is never lowered")
        return self


class SettingsState(Value):
    """Settings of the machine itself, as it reads them back. What is not named is not managed."""

    sysctl: dict[str, str] = {}
    hugepages_2m: int | None = Field(default=None, description="Number of 2 MiB pages.")
    hugepages_1g: int | None = Field(default=None, exclude_if=_missing, description="Number of 1 GiB pages.")
    transparent_hugepages: str | None = None
    governor: str | None = None


def _beside(kind: type[Any]) -> dict[str, Any]:
    """Of each key of `tuning` that has one, what of this kind stands beside its type."""
    fields = Tuning.model_fields.items()
    return {key: beside for key, field in fields for beside in field.metadata if isinstance(beside, kind)}


KERNEL: Mapping[str, Kernel] = _beside(Kernel)
HELD: Mapping[str, Held] = _beside(Held)

#: Each GPU's own settings; see GpuState.
_OF_GPUS = {"gpu_power", "gpu_power_loss", "gpu_clock", "gpu_persistence"}
_without = Tuning.model_fields.keys() ^ {*KERNEL, *HELD, *_OF_GPUS, "sysctl"}
assert not _without, f"what does the machine hold for {_without}? It stands beside the type, as Kernel or Held"
_alone = SettingsState.model_fields.keys() ^ {"sysctl", *(held.field for held in HELD.values())}
assert not _alone, f"{_alone} is a field without a key, or of a key without a field"
_bare = {key for key, held in HELD.items() if (held.of is Held.of) != (held.read is Held.read)}
assert not _bare, f"{_bare}: what is held in another unit is read with its name"


def settings(tuning: Tuning, pools: Mapping[str, int] | None = None) -> SettingsState:
    """What the machine should hold. A key of its own replaces the same kernel setting under `sysctl`.

    `pools`: huge pages that workloads may ask for, by key of the tuning, in bytes. The machine's own are beside them.
    """
    sysctl = {name if "." in name else name.replace("/", "."): str(value) for name, value in tuning.sysctl.items()}
    sysctl |= {kernel.name: str(getattr(tuning, key)) for key, kernel in KERNEL.items() if getattr(tuning, key) is not None}
    held = {one.field: one.of(getattr(tuning, key)) for key, one in HELD.items() if getattr(tuning, key) is not None}
    for key, size in (pools or {}).items():
        if size:
            held[HELD[key].field] = held.get(HELD[key].field, 0) + HELD[key].of(size)
    return SettingsState(sysctl={name: " ".join(value.split()) for name, value in sorted(sysctl.items())}, **held)
