/* What may be set on a card, within which range, and what does it then report? */
#include "stand_in.h"
#include <stddef.h>

/* Named as the caller's function, so that faults on it apply. */
#define ENTER_TO_SET(device)                       \
  do {                                             \
    ENTER(device, 1);                              \
    if (!may_set()) return NO_PERMISSION;          \
  } while (0)

static int busy(Device device) { return processes_of(device, NULL, 0) > 0; }

Return nvmlDeviceGetPersistenceMode(Device device, unsigned *mode) {
  ENTER(device, mode);
  *mode = settings_of(device).persistence;
  return OK;
}
static void persist(Settings *s, const void *wish) { s->persistence = *(const unsigned *)wish; }
Return nvmlDeviceSetPersistenceMode(Device device, unsigned mode) {
  ENTER_TO_SET(device);
  return mode > 1 ? INVALID_ARGUMENT : settings_change(device, persist, &mode);
}

Return nvmlDeviceGetPowerManagementMode(Device device, unsigned *mode) { ENTER(device, mode); *mode = 1; return OK; }
Return nvmlDeviceGetPowerManagementLimit(Device device, unsigned *limit) {
  ENTER(device, limit);
  *limit = settings_of(device).power;
  return OK;
}
Return nvmlDeviceGetEnforcedPowerLimit(Device device, unsigned *limit) {
  ENTER(device, limit);
  *limit = settings_of(device).power;
  return OK;
}
Return nvmlDeviceGetPowerManagementDefaultLimit(Device device, unsigned *limit) {
  ENTER(device, limit);
  *limit = device->model->power_default;
  return OK;
}
Return nvmlDeviceGetPowerManagementLimitConstraints(Device device, unsigned *least, unsigned *most) {
  ENTER(device, least && most);
  *least = device->model->power_min;
  *most = device->model->power_max;
  return OK;
}
static void cap(Settings *s, const void *wish) { s->power = *(const unsigned *)wish; }
Return nvmlDeviceSetPowerManagementLimit(Device device, unsigned limit) {
  ENTER_TO_SET(device);
  if (limit < device->model->power_min || limit > device->model->power_max) return INVALID_ARGUMENT;
  return settings_change(device, cap, &limit);
}
Return nvmlDeviceGetPowerUsage(Device device, unsigned *usage) {
  ENTER(device, usage);
  unsigned limit = settings_of(device).power, wish = busy(device) ? device->model->power_max : device->model->power_idle;
  *usage = wish < limit ? wish : limit;
  return OK;
}

/* A real card has steps, and takes the step at or below the wish. */
static unsigned on_step(const Model *model, unsigned mhz) {
  return model->gpu_min + (mhz - model->gpu_min) / STEP_MHZ * STEP_MHZ;
}
static void lock_gpu(Settings *s, const void *wish) {
  s->gpu_min = ((const unsigned *)wish)[0];
  s->gpu_max = ((const unsigned *)wish)[1];
}
Return nvmlDeviceSetGpuLockedClocks(Device device, unsigned least, unsigned most) {
  ENTER_TO_SET(device);
  const Model *model = device->model;
  if (least > most || least < model->gpu_min || most > model->gpu_max) return INVALID_ARGUMENT;
  unsigned wish[2] = {on_step(model, least), on_step(model, most)};
  return settings_change(device, lock_gpu, wish);
}
Return nvmlDeviceResetGpuLockedClocks(Device device) {
  ENTER_TO_SET(device);
  unsigned none[2] = {0, 0};
  return settings_change(device, lock_gpu, none);
}

static int has_memory_clock(const Model *model, unsigned mhz) { return mhz == model->memory_clock || mhz == model->memory_low; }
static void lock_memory(Settings *s, const void *wish) {
  s->memory_min = ((const unsigned *)wish)[0];
  s->memory_max = ((const unsigned *)wish)[1];
}
Return nvmlDeviceSetMemoryLockedClocks(Device device, unsigned least, unsigned most) {
  ENTER_TO_SET(device);
  if (least > most || !has_memory_clock(device->model, least) || !has_memory_clock(device->model, most)) return INVALID_ARGUMENT;
  unsigned wish[2] = {least, most};
  return settings_change(device, lock_memory, wish);
}
Return nvmlDeviceResetMemoryLockedClocks(Device device) {
  ENTER_TO_SET(device);
  unsigned none[2] = {0, 0};
  return settings_change(device, lock_memory, none);
}

static unsigned within(unsigned clock, unsigned least, unsigned most) {
  if (!most) return clock;
  return clock < least ? least : clock > most ? most : clock;
}
Return nvmlDeviceGetClockInfo(Device device, unsigned type, unsigned *mhz) {
  ENTER(device, mhz);
  if (type > VIDEO) return INVALID_ARGUMENT;
  const Model *model = device->model;
  Settings s = settings_of(device);
  int working = busy(device);
  if (type == MEMORY) *mhz = within(working ? model->memory_clock : model->memory_idle, s.memory_min, s.memory_max);
  else *mhz = within(working ? model->gpu_max : model->gpu_idle, s.gpu_min, s.gpu_max);
  return OK;
}
Return nvmlDeviceGetMaxClockInfo(Device device, unsigned type, unsigned *mhz) {
  ENTER(device, mhz);
  if (type > VIDEO) return INVALID_ARGUMENT;
  *mhz = type == MEMORY ? device->model->memory_clock : device->model->gpu_max;
  return OK;
}

Return nvmlDeviceGetSupportedMemoryClocks(Device device, unsigned *room, unsigned *clocks) {
  ENTER(device, room);
  const Model *model = device->model;
  unsigned total = 2, had = *room;
  *room = total;
  if (!clocks || had < total) return INSUFFICIENT_SIZE;
  clocks[0] = model->memory_clock;
  clocks[1] = model->memory_low;
  return OK;
}
Return nvmlDeviceGetSupportedGraphicsClocks(Device device, unsigned memory, unsigned *room, unsigned *clocks) {
  ENTER(device, room);
  const Model *model = device->model;
  if (!has_memory_clock(model, memory)) return NOT_FOUND;
  unsigned total = (model->gpu_max - model->gpu_min) / STEP_MHZ + 1, had = *room;
  *room = total;
  if (!clocks || had < total) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < total; i++) clocks[i] = model->gpu_max - i * STEP_MHZ;
  return OK;
}
