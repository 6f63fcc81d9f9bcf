/* Is a card cut into instances, which are there, and which files do their capabilities have? */
#define _GNU_SOURCE
#include "stand_in.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { MOST = 7, EIGHTHS = 8, IN_USE = 19, INSUFFICIENT_RESOURCES = 23, CAPS_MAJOR = 508, ALL_KINDS = 17 };

/* As `nvidia-smi mig -lgip` and -lgipp of an H100 of 80 GB have them. `kind`: the vendor's enumeration. */
typedef struct { unsigned kind, id, slices, size, starts, memory_mib, most; } Profile;
static const Profile PROFILES[] = {
  {0, 19, 1, 1, 0x7f, 9984, 7}, {9, 15, 1, 2, 0x55, 20096, 4}, {1, 14, 2, 2, 0x15, 20096, 3},
  {2, 9, 3, 4, 0x11, 40448, 2}, {3, 5, 4, 4, 0x01, 40448, 1}, {4, 0, 7, 8, 0x01, 81152, 1},
  {7, 20, 1, 1, 0x7f, 9984, 1}, /* +me */
};
static const unsigned COMPUTE[] = {1, 2, 3, 4, 7}; /* compute slices, by the vendor's enumeration */
enum { KINDS = sizeof PROFILES / sizeof *PROFILES, COMPUTES = sizeof COMPUTE / sizeof *COMPUTE };

typedef struct { unsigned start, size; } Placement;
typedef struct { unsigned gpu, id; } Handle;
typedef const Handle *Instance;
typedef struct { Device device; unsigned id, profile; Placement placement; } InstanceInfo;
typedef struct { Device device; Instance instance; unsigned id, profile; Placement placement; } ComputeInfo;
typedef struct {
  unsigned id, p2p, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa;
  unsigned long long memory_mib;
} ProfileInfo;
typedef struct { unsigned id, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa; } ComputeProfileInfo;

static Handle handles[MAX_GPUS][MIG_IDS];
static Gpu devices[MAX_GPUS][MIG_IDS];

int is_mig_device(Device device) { return device >= &devices[0][0] && device <= &devices[MAX_GPUS - 1][MIG_IDS - 1]; }

static const Profile *of_kind(unsigned kind) {
  for (unsigned i = 0; i < KINDS; i++)
    if (PROFILES[i].kind == kind) return &PROFILES[i];
  return NULL;
}
static const Profile *of_id(unsigned id) {
  for (unsigned i = 0; i < KINDS; i++)
    if (PROFILES[i].id == id) return &PROFILES[i];
  return NULL;
}
static unsigned bits(const Mig *mig, unsigned id) {
  const Profile *profile = of_id(mig->at[id].profile);
  return mig->at[id].there && profile ? ((1u << profile->size) - 1) << mig->at[id].start : 0;
}
static unsigned there(const Mig *mig) {
  unsigned total = 0;
  for (unsigned id = 0; id < MIG_IDS; id++) total += mig->at[id].there;
  return total;
}

Return nvmlDeviceGetMigMode(Device device, unsigned *current, unsigned *pending) {
  ENTER(device, current && pending);
  if (!device->model->mig) return NOT_SUPPORTED;
  *current = *pending = mig_of(device).mode;
  return OK;
}
static void switched(Mig *mig, const void *wish) { mig->mode = *(const unsigned *)wish; }
Return nvmlDeviceSetMigMode(Device device, unsigned mode, Return *activation) {
  ENTER(device, activation);
  if (!may_set()) return NO_PERMISSION;
  if (!device->model->mig) return NOT_SUPPORTED;
  if (mode > 1) return INVALID_ARGUMENT;
  Mig mig = mig_of(device);
  *activation = OK;
  if (mig.mode != mode && (processes_of(device, NULL, 0) || there(&mig))) return IN_USE;
  return mig_change(device, switched, &mode);
}
Return nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned *most) {
  ENTER(device, most);
  *most = mig_of(device).mode ? MOST : 0;
  return OK;
}

Return nvmlDeviceGetGpuInstanceProfileInfo(Device device, unsigned kind, ProfileInfo *info) {
  ENTER(device, info);
  const Profile *profile = of_kind(kind);
  if (kind >= ALL_KINDS) return INVALID_ARGUMENT;
  if (!device->model->mig || !profile) return NOT_SUPPORTED;
  *info = (ProfileInfo){.id = profile->id, .slices = profile->slices, .instances = profile->most, .memory_mib = profile->memory_mib};
  return OK;
}
Return nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device device, unsigned id, Placement *found, unsigned *count) {
  ENTER(device, count);
  const Profile *profile = of_id(id);
  unsigned total = 0, had = *count;
  if (!device->model->mig || !profile) return NOT_SUPPORTED;
  for (unsigned start = 0; start < EIGHTHS; start++)
    if (profile->starts >> start & 1) {
      if (found && total < had) found[total] = (Placement){start, profile->size};
      total++;
    }
  *count = total;
  return found && total > had ? INSUFFICIENT_SIZE : OK;
}

/* The driver's: the number of a capability, the text file of it, and the device file behind which it is. */
static unsigned minor_of(unsigned gpu, unsigned id, int compute) { return 3 + gpu * 2 * MIG_IDS + id * 2 + (compute ? 1 : 0); }
static void capability(unsigned gpu, unsigned id, int compute, int made) {
  char path[512], part[64] = "";
  const char *proc = secure_getenv("SWARM_NVML_PROC"), *dev = secure_getenv("SWARM_NVML_DEV");
  unsigned minor = minor_of(gpu, id, compute);
  if (!proc) proc = "/proc/driver/nvidia";
  if (!dev) dev = "/dev";
  if (compute) strcpy(part, "/ci0");
  if (made) {
    snprintf(path, sizeof path, "mkdir -p '%s/capabilities/gpu%u/mig/gi%u%s' '%s/nvidia-caps'", proc, gpu, id, part, dev);
    if (system(path)) return;
    snprintf(path, sizeof path, "%s/capabilities/gpu%u/mig/gi%u%s/access", proc, gpu, id, part);
    FILE *file = fopen(path, "we");
    if (!file) return;
    fprintf(file, "DeviceFileMinor: %u\nDeviceFileMode: 256\nDeviceFileModify: 1\n", minor);
    fclose(file);
    snprintf(path, sizeof path, "%s/nvidia-caps/nvidia-cap%u", dev, minor);
    if (mknod(path, S_IFCHR | 0400, makedev(CAPS_MAJOR, minor)) && (file = fopen(path, "we"))) fclose(file); /* not as root */
  } else {
    snprintf(path, sizeof path, "%s/capabilities/gpu%u/mig/gi%u%s/access", proc, gpu, id, part);
    unlink(path);
    snprintf(path, sizeof path, "%s/capabilities/gpu%u/mig/gi%u%s", proc, gpu, id, part);
    rmdir(path);
    snprintf(path, sizeof path, "%s/nvidia-caps/nvidia-cap%u", dev, minor);
    unlink(path);
  }
}

typedef struct { unsigned id, profile, start, compute; int there; } Wish;
static void put(Mig *mig, const void *wish) {
  const Wish *one = wish;
  mig->at[one->id].there = one->there;
  mig->at[one->id].profile = one->profile;
  mig->at[one->id].start = one->start;
  mig->at[one->id].compute = one->compute;
}
static Instance handle_of(unsigned gpu, unsigned id) {
  handles[gpu][id] = (Handle){gpu, id};
  return &handles[gpu][id];
}

Return nvmlDeviceCreateGpuInstanceWithPlacement(Device device, unsigned id, const Placement *placement, Instance *made) {
  ENTER(device, placement && made);
  if (!may_set()) return NO_PERMISSION;
  const Profile *profile = of_id(id);
  Mig mig = mig_of(device);
  if (!profile || !mig.mode) return NOT_SUPPORTED;
  if (placement->size != profile->size || placement->start >= EIGHTHS || !(profile->starts >> placement->start & 1))
    return INVALID_ARGUMENT;
  unsigned wanted = ((1u << profile->size) - 1) << placement->start, number = 1;
  for (unsigned i = 0; i < MIG_IDS; i++)
    if (bits(&mig, i) & wanted) return INSUFFICIENT_RESOURCES;
  if (there(&mig) >= MOST) return INSUFFICIENT_RESOURCES;
  while (mig.at[number].there) number++;
  Return result = mig_change(device, put, &(Wish){number, id, placement->start, 0, 1});
  if (result != OK) return result;
  capability(device->index, number, 0, 1);
  *made = handle_of(device->index, number);
  return OK;
}

static Return inside(Instance instance, Mig *mig) {
  if (!instance || instance->gpu >= gpu_count() || instance->id >= MIG_IDS) return INVALID_ARGUMENT;
  *mig = mig_of(gpu_at(instance->gpu));
  return mig->at[instance->id].there ? OK : NOT_FOUND;
}

Return nvmlGpuInstanceDestroy(Instance instance) {
  Mig mig;
  Return result = inside(instance, &mig);
  if (result != OK) return result;
  if (!may_set()) return NO_PERMISSION;
  if (mig.at[instance->id].compute) return IN_USE;
  result = mig_change(gpu_at(instance->gpu), put, &(Wish){instance->id, 0, 0, 0, 0});
  if (result == OK) capability(instance->gpu, instance->id, 0, 0);
  return result;
}
Return nvmlDeviceGetGpuInstances(Device device, unsigned id, Instance *found, unsigned *count) {
  ENTER(device, found && count);
  Mig mig = mig_of(device);
  *count = 0;
  for (unsigned i = 0; i < MIG_IDS; i++)
    if (mig.at[i].there && mig.at[i].profile == id) found[(*count)++] = handle_of(device->index, i);
  return OK;
}
Return nvmlGpuInstanceGetInfo(Instance instance, InstanceInfo *info) {
  Mig mig;
  Return result = info ? inside(instance, &mig) : INVALID_ARGUMENT;
  if (result != OK) return result;
  unsigned profile = mig.at[instance->id].profile;
  *info = (InstanceInfo){gpu_at(instance->gpu), instance->id, profile, {mig.at[instance->id].start, of_id(profile)->size}};
  return OK;
}

Return nvmlGpuInstanceGetComputeInstanceProfileInfo(Instance instance, unsigned kind, unsigned engines, ComputeProfileInfo *info) {
  Mig mig;
  Return result = info ? inside(instance, &mig) : INVALID_ARGUMENT;
  if (result != OK) return result;
  if (engines || kind >= COMPUTES || COMPUTE[kind] > of_id(mig.at[instance->id].profile)->slices) return NOT_SUPPORTED;
  *info = (ComputeProfileInfo){.id = kind, .slices = COMPUTE[kind], .instances = 1};
  return OK;
}
Return nvmlGpuInstanceCreateComputeInstance(Instance instance, unsigned kind, Instance *made) {
  Mig mig;
  Return result = made ? inside(instance, &mig) : INVALID_ARGUMENT;
  if (result != OK) return result;
  if (!may_set()) return NO_PERMISSION;
  const Profile *profile = of_id(mig.at[instance->id].profile);
  if (kind >= COMPUTES || COMPUTE[kind] != profile->slices) return NOT_SUPPORTED;
  if (mig.at[instance->id].compute) return INSUFFICIENT_RESOURCES;
  Wish wish = {instance->id, profile->id, mig.at[instance->id].start, kind + 1, 1};
  result = mig_change(gpu_at(instance->gpu), put, &wish);
  if (result != OK) return result;
  capability(instance->gpu, instance->id, 1, 1);
  *made = instance;
  return OK;
}
Return nvmlGpuInstanceGetComputeInstances(Instance instance, unsigned kind, Instance *found, unsigned *count) {
  Mig mig;
  Return result = found && count ? inside(instance, &mig) : INVALID_ARGUMENT;
  if (result != OK) return result;
  *count = mig.at[instance->id].compute == kind + 1;
  if (*count) *found = instance;
  return OK;
}
Return nvmlComputeInstanceGetInfo_v2(Instance compute, ComputeInfo *info) {
  Mig mig;
  Return result = info ? inside(compute, &mig) : INVALID_ARGUMENT;
  if (result != OK) return result;
  if (!mig.at[compute->id].compute) return NOT_FOUND;
  *info = (ComputeInfo){gpu_at(compute->gpu), compute, 0, mig.at[compute->id].compute - 1, {0, 0}};
  return OK;
}
Return nvmlComputeInstanceDestroy(Instance compute) {
  Mig mig;
  Return result = inside(compute, &mig);
  if (result != OK) return result;
  if (!may_set()) return NO_PERMISSION;
  Wish wish = {compute->id, mig.at[compute->id].profile, mig.at[compute->id].start, 0, 1};
  result = mig_change(gpu_at(compute->gpu), put, &wish);
  if (result == OK) capability(compute->gpu, compute->id, 1, 0);
  return result;
}

/* What CUDA sees: an instance with a compute instance, by a name of its own. */
Return nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device *found) {
  ENTER(device, found);
  Mig mig = mig_of(device);
  for (unsigned id = 0; id < MIG_IDS; id++)
    if (mig.at[id].there && mig.at[id].compute && !index--) {
      devices[device->index][id] = *device;
      devices[device->index][id].mig = id;
      snprintf(devices[device->index][id].uuid, sizeof device->uuid, "MIG-%02u%02u%.60s", device->index, id, device->uuid + 4);
      *found = &devices[device->index][id];
      return OK;
    }
  return NOT_FOUND;
}
Return nvmlDeviceIsMigDeviceHandle(Device device, unsigned *is) { ENTER(device, is); *is = (unsigned)is_mig_device(device); return OK; }
Return nvmlDeviceGetGpuInstanceId(Device device, unsigned *id) {
  ENTER(device, id);
  if (!is_mig_device(device)) return NOT_FOUND;
  *id = device->mig;
  return OK;
}
Return nvmlDeviceGetComputeInstanceId(Device device, unsigned *id) {
  ENTER(device, id);
  if (!is_mig_device(device)) return NOT_FOUND;
  *id = 0;
  return OK;
}
unsigned long long mig_memory_mib(Device device) {
  Mig mig = mig_of(device);
  const Profile *profile = of_id(mig.at[device->mig].profile);
  return profile ? profile->memory_mib : 0;
}
