/* Which card is this, what is in it, and what is it doing? */
#include "stand_in.h"
#include <stdio.h>
#include <string.h>

static const unsigned long long MIB = 1ull << 20;

Return nvmlDeviceGetIndex(Device device, unsigned *index) { ENTER(device, index); *index = device->index; return OK; }
Return nvmlDeviceGetMinorNumber(Device device, unsigned *minor) { ENTER(device, minor); *minor = device->index; return OK; }
Return nvmlDeviceGetName(Device device, char *to, unsigned room) { ENTER(device, to); return copy(to, room, device->model->name); }
Return nvmlDeviceGetUUID(Device device, char *to, unsigned room) { ENTER(device, to); return copy(to, room, device->uuid); }
Return nvmlDeviceGetSerial(Device device, char *to, unsigned room) {
  char serial[16];
  ENTER(device, to);
  snprintf(serial, sizeof serial, "16500230%05u", device->bus);
  return copy(to, room, serial);
}

Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo *info) {
  ENTER(device, info);
  *info = (PciInfo){.bus = device->bus, .pci_device_id = device->model->pci_device, .pci_subsystem_id = device->model->pci_subsystem};
  snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", device->bus & 0xffu);
  snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "0000:%02X:00.0", device->bus & 0xffu);
  return OK;
}

Return nvmlDeviceGetCudaComputeCapability(Device device, int *major, int *minor) {
  ENTER(device, major && minor);
  *major = device->model->capability_major;
  *minor = device->model->capability_minor;
  return OK;
}

Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned *room, Process *list) {
  ENTER(device, room);
  unsigned total = processes_of(device, list, *room), had = *room;
  *room = total;
  return total > (list ? had : 0) ? INSUFFICIENT_SIZE : OK;
}
Return nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned *room, Process *list) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, room, list);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned *room, Process *list) {
  (void)list;
  ENTER(device, room);
  *room = 0;
  return OK;
}
Return nvmlDeviceGetMPSComputeRunningProcesses_v3(Device device, unsigned *room, Process *list) {
  return nvmlDeviceGetGraphicsRunningProcesses_v3(device, room, list);
}

static unsigned long long used_by_all(Device device) {
  Process list[64];
  unsigned long long used = 0;
  unsigned total = processes_of(device, list, 64);
  for (unsigned i = 0; i < total && i < 64; i++) used += list[i].used;
  unsigned long long most = (device->model->memory_mib - device->model->reserved_mib) * MIB;
  return used < most ? used : most;
}

typedef struct { unsigned long long total, free, used; } Memory;
Return nvmlDeviceGetMemoryInfo(Device device, Memory *memory) {
  ENTER(device, memory);
  if (is_mig_device(device)) {
    *memory = (Memory){.total = mig_memory_mib(device) * MIB, .free = mig_memory_mib(device) * MIB};
    return OK;
  }
  memory->total = device->model->memory_mib * MIB;
  memory->used = used_by_all(device) + device->model->reserved_mib * MIB;
  memory->free = memory->total - memory->used;
  return OK;
}

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2 *memory) {
  ENTER(device, memory);
  if (is_mig_device(device)) {
    *memory = (MemoryV2){.version = memory->version, .total = mig_memory_mib(device) * MIB, .free = mig_memory_mib(device) * MIB};
    return OK;
  }
  memory->total = device->model->memory_mib * MIB;
  memory->reserved = device->model->reserved_mib * MIB;
  memory->used = used_by_all(device);
  memory->free = memory->total - memory->reserved - memory->used;
  return OK;
}

typedef struct { unsigned gpu, memory; } Utilization;
Return nvmlDeviceGetUtilizationRates(Device device, Utilization *rates) {
  ENTER(device, rates);
  unsigned busy = processes_of(device, NULL, 0) > 0;
  *rates = (Utilization){busy ? 97 : 0, busy ? 40 : 0};
  return OK;
}

Return nvmlDeviceGetTemperature(Device device, unsigned sensor, unsigned *celsius) {
  ENTER(device, celsius);
  if (sensor) return INVALID_ARGUMENT;
  *celsius = processes_of(device, NULL, 0) ? 61 : 31;
  return OK;
}

Return nvmlDeviceGetEccMode(Device device, unsigned *current, unsigned *pending) {
  ENTER(device, current && pending);
  *current = *pending = 1;
  return OK;
}

Return nvmlDeviceGetComputeMode(Device device, unsigned *mode) { ENTER(device, mode); *mode = 0; return OK; }
