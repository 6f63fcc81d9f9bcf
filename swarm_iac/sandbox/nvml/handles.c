/* How does a program reach a GPU: start, versions, handles, and the words for an error? */
#include "stand_in.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static int users;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

Return nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  pthread_mutex_lock(&guard);
  Return result = users ? OK : inventory_load();
  if (result == OK) users++;
  pthread_mutex_unlock(&guard);
  return result;
}
Return nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
Return nvmlInit(void) { return nvmlInitWithFlags(0); }

Return nvmlShutdown(void) {
  pthread_mutex_lock(&guard);
  Return result = users ? OK : UNINITIALIZED;
  if (users && !--users) inventory_drop();
  pthread_mutex_unlock(&guard);
  return result;
}

static int is_ours(Device device) { return device && device == gpu_at(device->index); }

Return enter(const char *function, Device device) {
  if (!users) return UNINITIALIZED;
  return is_ours(device) || (device && is_mig_device(device)) ? fault_of(function, device) : INVALID_ARGUMENT;
}

Return copy(char *to, unsigned room, const char *from) {
  if (!to) return INVALID_ARGUMENT;
  if (strlen(from) >= room) return INSUFFICIENT_SIZE;
  strcpy(to, from);
  return OK;
}

const char *nvmlErrorString(Return code) {
  static const char *const words[] = {
    "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized",
    "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
    "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM",
    "GPU is lost", "GPU requires reset", "The operating system has blocked the request", "Driver/library version mismatch",
    "In use by another client", "Insufficient Memory"};
  return code >= 0 && code < (int)(sizeof words / sizeof *words) ? words[code] : "Unknown Error";
}

Return nvmlSystemGetDriverVersion(char *to, unsigned room) { return users ? copy(to, room, "570.00.00") : UNINITIALIZED; }
Return nvmlSystemGetNVMLVersion(char *to, unsigned room) { return copy(to, room, "12.570.00.00"); }
Return nvmlSystemGetCudaDriverVersion_v2(int *version) {
  if (!version) return INVALID_ARGUMENT;
  *version = 12080;
  return OK;
}
Return nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

Return nvmlDeviceGetCount_v2(unsigned *total) {
  if (!users) return UNINITIALIZED;
  if (!total) return INVALID_ARGUMENT;
  *total = gpu_count();
  return OK;
}
Return nvmlDeviceGetCount(unsigned *total) { return nvmlDeviceGetCount_v2(total); }

static Return found(const char *function, Gpu *gpu, Device *device, Return otherwise) {
  if (!users) return UNINITIALIZED;
  if (!device) return INVALID_ARGUMENT;
  if (!gpu) return otherwise;
  Return result = fault_of(function, gpu);
  if (result == OK) *device = gpu;
  return result;
}

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
  return found(__func__, gpu_at(index), device, INVALID_ARGUMENT);
}

Return nvmlDeviceGetHandleByUUID(const char *uuid, Device *device) {
  Gpu *gpu = NULL;
  for (unsigned i = 0; uuid && i < gpu_count(); i++)
    if (!strcasecmp(gpu_at(i)->uuid, uuid)) gpu = gpu_at(i);
  return found(__func__, gpu, device, uuid ? NOT_FOUND : INVALID_ARGUMENT);
}

/* The domain may be written with four or eight digits, in either case. */
Return nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Device *device) {
  unsigned domain, bus, slot;
  Gpu *gpu = NULL;
  if (!bus_id || sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3) return INVALID_ARGUMENT;
  for (unsigned i = 0; i < gpu_count(); i++)
    if (domain == 0 && slot == 0 && gpu_at(i)->bus == bus) gpu = gpu_at(i);
  return found(__func__, gpu, device, NOT_FOUND);
}
