/* What do the parts of the stand-in for libnvidia-ml.so.1 share?
 *
 * Three kinds of text files, read afresh on every call so that all processes see one machine:
 *   ETC/gpus       the inventory, one GPU a line:  INDEX MODEL BUS_ID UUID NUMA_NODE [LINKED PCIE_SWITCH]
 *                  LINKED: cards of one number are joined by NVLink, directly; 0 or nothing: a card with links is on the switches.
 *                  Cards of one PCIE_SWITCH other than 0 are behind it.
 *   RUN/state      settings; gone with /run at a reboot, as on a real card:
 *                  INDEX PERSISTENCE POWER_MW GPU_MIN GPU_MAX MEM_MIN MEM_MAX      (clocks in MHz, 0: not locked)
 *   RUN/mig        cards that are cut, gone at a reboot as well:  mode INDEX  |  at INDEX INSTANCE PROFILE START COMPUTE
 *   RUN/processes  who computes:  INDEX PID USED_MIB
 *   RUN/faults     what is broken:  lost INDEX  |  error FUNCTION INDEX CODE  |  unlinked INDEX       (INDEX '*': every GPU)
 *                  hang FUNCTION INDEX: the call returns when the line is gone, as one in a driver that hangs
 *   RUN/xid        Xid errors, one a line as they come:  INDEX NUMBER
 * ETC is /etc/swarm-nvml and RUN is /run/swarm-nvml, or $SWARM_NVML_ETC and $SWARM_NVML_RUN.
 * Whoever may write RUN may set; on a node that is root alone. Values and layouts follow nvml.h of the vendor. */
#ifndef STAND_IN_H
#define STAND_IN_H

enum {
  OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15, OPERATING_SYSTEM = 17, UNKNOWN = 999
};
enum { GRAPHICS = 0, SM = 1, MEMORY = 2, VIDEO = 3 };
enum { MAX_GPUS = 16, STEP_MHZ = 15 };

typedef int Return;

typedef struct {
  const char *key, *name;
  unsigned long long memory_mib, reserved_mib;
  unsigned power_min, power_default, power_max, power_idle;         /* mW */
  unsigned gpu_min, gpu_max, gpu_idle, memory_clock, memory_idle, memory_low; /* MHz */
  unsigned links, pci_device, pci_subsystem;
  int capability_major, capability_minor, mig;
} Model;

typedef struct {
  unsigned index, numa, bus, linked, pcie;
  const Model *model;
  char bus_id[32], uuid[80];
  unsigned mig; /* of the handle of a MIG device: its instance */
} Gpu;

typedef struct { unsigned persistence, power, gpu_min, gpu_max, memory_min, memory_max; } Settings;

enum { MIG_IDS = 16 };
/* `compute`: 0 for none, else one more than the kind of its compute instance. */
typedef struct { unsigned mode; struct { unsigned there, profile, start, compute; } at[MIG_IDS]; } Mig;

typedef Gpu *Device;

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} PciInfo;

/* files.c */
#include <stdio.h>
FILE *run_file(const char *name);
Return inventory_load(void);
void inventory_drop(void);
unsigned gpu_count(void);
Gpu *gpu_at(unsigned index);
Settings settings_of(const Gpu *gpu);
Return settings_change(const Gpu *gpu, void (*change)(Settings *, const void *), const void *wish);
Mig mig_of(const Gpu *gpu);
Return mig_change(const Gpu *gpu, void (*change)(Mig *, const void *), const void *wish);
int may_set(void);
Return fault_of(const char *function, const Gpu *gpu);
int unlinked(const Gpu *gpu);
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;
unsigned processes_of(const Gpu *gpu, Process *found, unsigned room);

/* mig.c */
int is_mig_device(Device device);
unsigned long long mig_memory_mib(Device device);

/* handles.c */
Return enter(const char *function, Device device);
Return copy(char *to, unsigned room, const char *from);

/* Every call on a device begins with this: the handle is one of ours, the card is there, no fault is due. */
#define ENTER(device, pointer)                                  \
  do {                                                          \
    Return entered = enter(__func__, (device));                 \
    if (entered != OK) return entered;                          \
    if (!(pointer)) return INVALID_ARGUMENT;                    \
  } while (0)

#endif
