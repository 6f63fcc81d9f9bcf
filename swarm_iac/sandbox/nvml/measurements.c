/* What does a card measure of itself over time, and which errors does it tell of? */
#define _GNU_SOURCE
#include "stand_in.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ECC_KINDS = 2, XID = 8, TIMEOUT = 10, SM_UTIL = 2, DRAM_BW_UTIL = 10, POWER_CAP = 4, IDLE = 1 };

static int busy(Device device) { return processes_of(device, NULL, 0) > 0; }

/* As if it had drawn since boot what it draws when idle: it only grows, and the same for all who ask. */
Return nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long *millijoules) {
  struct timespec up;
  ENTER(device, millijoules);
  clock_gettime(CLOCK_BOOTTIME, &up);
  *millijoules = (unsigned long long)up.tv_sec * device->model->power_idle;
  return OK;
}

Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *reasons) {
  ENTER(device, reasons);
  *reasons = !busy(device) ? IDLE : settings_of(device).power < device->model->power_max ? POWER_CAP : 0;
  return OK;
}
Return nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long *reasons) {
  return nvmlDeviceGetCurrentClocksThrottleReasons(device, reasons);
}

Return nvmlDeviceGetTotalEccErrors(Device device, unsigned kind, unsigned counter, unsigned long long *total) {
  ENTER(device, total);
  if (kind >= ECC_KINDS || counter > 1) return INVALID_ARGUMENT;
  *total = 0;
  return OK;
}

/* -- GPM: cards from H100 on. A sample is nothing but a mark here; between two, a card is as busy as it is now. */

typedef struct { unsigned version, supported; } GpmSupport;
typedef struct { Device device; } *GpmSample;
typedef struct { unsigned id; Return result; double value; struct { char *name, *text, *unit; } info; } GpmMetric;
typedef struct { unsigned version, count; GpmSample before, now; GpmMetric metrics[]; } GpmQuery;

Return nvmlGpmQueryDeviceSupport(Device device, GpmSupport *support) {
  ENTER(device, support);
  support->supported = device->model->capability_major >= 9;
  return OK;
}
Return nvmlGpmSampleAlloc(GpmSample *sample) {
  if (!sample) return INVALID_ARGUMENT;
  *sample = calloc(1, sizeof **sample);
  return *sample ? OK : UNKNOWN;
}
Return nvmlGpmSampleFree(GpmSample sample) { free(sample); return OK; }
Return nvmlGpmSampleGet(Device device, GpmSample sample) {
  ENTER(device, sample);
  if (device->model->capability_major < 9) return NOT_SUPPORTED;
  sample->device = device;
  return OK;
}
Return nvmlGpmMigSampleGet(Device device, unsigned instance, GpmSample sample) {
  ENTER(device, sample);
  Mig mig = mig_of(device);
  if (!mig.mode || instance >= MIG_IDS || !mig.at[instance].there) return INVALID_ARGUMENT;
  return nvmlGpmSampleGet(device, sample);
}
Return nvmlGpmMetricsGet(GpmQuery *query) {
  if (!query || query->version != 1 || !query->before || !query->now || !query->now->device) return INVALID_ARGUMENT;
  for (unsigned i = 0; i < query->count; i++) {
    GpmMetric *one = &query->metrics[i];
    one->result = one->id == SM_UTIL || one->id == DRAM_BW_UTIL ? OK : NOT_SUPPORTED;
    one->value = !busy(query->now->device) ? 0 : one->id == SM_UTIL ? 83 : 35;
  }
  return OK;
}

/* -- Events: Xid errors, lines `INDEX NUMBER` that were added to RUN/xid since the set was made. */

typedef struct { unsigned registered; long read; } *EventSet;
typedef struct { Device device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;

Return nvmlEventSetCreate(EventSet *set) {
  if (!set) return INVALID_ARGUMENT;
  *set = calloc(1, sizeof **set);
  if (!*set) return UNKNOWN;
  FILE *file = run_file("xid");
  if (file) {
    fseek(file, 0, SEEK_END);
    (*set)->read = ftell(file);
    fclose(file);
  }
  return OK;
}
Return nvmlEventSetFree(EventSet set) { free(set); return OK; }
Return nvmlDeviceRegisterEvents(Device device, unsigned long long types, EventSet set) {
  ENTER(device, set);
  if (types & ~(unsigned long long)XID) return NOT_SUPPORTED;
  set->registered |= 1u << device->index;
  return OK;
}
Return nvmlEventSetWait_v2(EventSet set, Event *event, unsigned milliseconds) {
  (void)milliseconds;
  if (!set || !event) return INVALID_ARGUMENT;
  FILE *file = run_file("xid");
  Return result = TIMEOUT;
  char line[64];
  unsigned index, number;
  if (!file) return result;
  fseek(file, set->read, SEEK_SET);
  while (result == TIMEOUT && fgets(line, sizeof line, file)) {
    if (sscanf(line, "%u %u", &index, &number) != 2 || index >= gpu_count() || !(set->registered >> index & 1)) continue;
    *event = (Event){.device = gpu_at(index), .type = XID, .data = number, .gpu_instance = ~0u, .compute_instance = ~0u};
    result = OK;
  }
  set->read = ftell(file);
  fclose(file);
  return result;
}
