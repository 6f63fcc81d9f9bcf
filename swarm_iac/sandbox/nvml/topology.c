/* How near is a card to the processors, and to the other cards? */
#define _GNU_SOURCE
#include "stand_in.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOPOLOGY_SINGLE = 10, TOPOLOGY_NODE = 40, TOPOLOGY_SYSTEM = 50 };
enum { P2P_OK = 0, P2P_NOT_SUPPORTED = 5, P2P_NVLINK = 2, P2P_LAST = 5 };
enum { TYPE_GPU = 0, TYPE_SWITCH = 2, SWITCHES = 4, LONG_BITS = 64 };

/* Of a card whose memory is a NUMA node itself, which none here is. */
Return nvmlDeviceGetNumaNodeId(Device device, unsigned *node) { ENTER(device, node); return NOT_SUPPORTED; }

Return nvmlDeviceGetMemoryAffinity(Device device, unsigned size, unsigned long *mask, unsigned scope) {
  (void)scope;
  ENTER(device, mask && size);
  memset(mask, 0, size * sizeof *mask);
  if (device->numa < LONG_BITS) mask[0] = 1ul << device->numa;
  return OK;
}

/* The kernel says which processors a memory node has, as in "0-1,4". */
Return nvmlDeviceGetCpuAffinityWithinScope(Device device, unsigned size, unsigned long *mask, unsigned scope) {
  char path[96], line[512] = "";
  (void)scope;
  ENTER(device, mask && size);
  memset(mask, 0, size * sizeof *mask);
  snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", device->numa);
  FILE *file = fopen(path, "re");
  if (!file) return NOT_SUPPORTED;
  if (!fgets(line, sizeof line, file)) line[0] = 0;
  fclose(file);
  char *rest = line, *part;
  while ((part = strsep(&rest, ","))) {
    unsigned first, last;
    int read = sscanf(part, "%u-%u", &first, &last);
    if (read < 1) continue;
    for (unsigned cpu = first; cpu <= (read == 2 ? last : first) && cpu < size * LONG_BITS; cpu++)
      mask[cpu / LONG_BITS] |= 1ul << cpu % LONG_BITS;
  }
  return OK;
}
Return nvmlDeviceGetCpuAffinity(Device device, unsigned size, unsigned long *mask) {
  return nvmlDeviceGetCpuAffinityWithinScope(device, size, mask, 0);
}

Return nvmlDeviceGetTopologyCommonAncestor(Device one, Device other, unsigned *level) {
  ENTER(one, level);
  ENTER(other, level);
  if (one == other) return NOT_SUPPORTED;
  *level = one->pcie && one->pcie == other->pcie ? TOPOLOGY_SINGLE : one->numa == other->numa ? TOPOLOGY_NODE : TOPOLOGY_SYSTEM;
  return OK;
}

Return nvmlDeviceGetP2PStatus(Device one, Device other, unsigned what, unsigned *status) {
  ENTER(one, status);
  ENTER(other, status);
  if (what > P2P_LAST) return INVALID_ARGUMENT;
  int linked = one != other && one->model->links && other->model->links && one->linked == other->linked && !unlinked(one) && !unlinked(other);
  *status = linked || what != P2P_NVLINK ? P2P_OK : P2P_NOT_SUPPORTED;
  return OK;
}

static Return link_of(const char *function, Device device, unsigned link) {
  Return result = enter(function, device);
  if (result != OK) return result;
  if (!device->model->links) return NOT_SUPPORTED;
  return link < device->model->links ? OK : INVALID_ARGUMENT;
}
/* Of cards that are joined directly, the links lead to the others in turn. NULL: it is on the switches, or alone. */
static const Gpu *peer_of(const Gpu *gpu, unsigned link) {
  const Gpu *peers[MAX_GPUS];
  unsigned found = 0;
  for (unsigned i = 0; gpu->linked && i < gpu_count(); i++)
    if (i != gpu->index && gpu_at(i)->linked == gpu->linked) peers[found++] = gpu_at(i);
  return found ? peers[link % found] : NULL;
}
#define ENTER_LINK(device, link, pointer)                    \
  do {                                                       \
    Return entered = link_of(__func__, (device), (link));    \
    if (entered != OK) return entered;                       \
    if (!(pointer)) return INVALID_ARGUMENT;                 \
  } while (0)

Return nvmlDeviceGetNvLinkState(Device device, unsigned link, unsigned *active) {
  ENTER_LINK(device, link, active);
  *active = !unlinked(device) && (!device->linked || peer_of(device, link));
  return OK;
}
Return nvmlDeviceGetNvLinkVersion(Device device, unsigned link, unsigned *version) {
  ENTER_LINK(device, link, version);
  *version = 4;
  return OK;
}

/* As on the eight-card boards: every link ends in one of four switches, which join every card to every other. */
Return nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link, unsigned *type) {
  ENTER_LINK(device, link, type);
  *type = device->linked ? TYPE_GPU : TYPE_SWITCH;
  return OK;
}
Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link, PciInfo *info) {
  ENTER_LINK(device, link, info);
  const Gpu *peer = peer_of(device, link);
  if (device->linked && !peer) return NOT_SUPPORTED;
  if (peer) {
    *info = (PciInfo){.bus = peer->bus, .pci_device_id = peer->model->pci_device};
    snprintf(info->bus_id, sizeof info->bus_id, "%s", peer->bus_id);
    snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "%.15s", peer->bus_id + 4);
    return OK;
  }
  unsigned bus = 0x05 + link % SWITCHES;
  *info = (PciInfo){.bus = bus, .pci_device_id = 0x22A310DE};
  snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", bus);
  snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "0000:%02X:00.0", bus);
  return OK;
}
