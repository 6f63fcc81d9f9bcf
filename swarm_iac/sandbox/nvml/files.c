/* What is this machine's inventory, what is set on it, and what is broken? */
#define _GNU_SOURCE
#include "stand_in.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const Model MODELS[] = {
  {.key = "H100", .name = "NVIDIA H100 80GB HBM3", .memory_mib = 81559, .reserved_mib = 480,
   .power_min = 200000, .power_default = 700000, .power_max = 700000, .power_idle = 70000,
   .gpu_min = 345, .gpu_max = 1980, .gpu_idle = 345, .memory_clock = 2619, .memory_idle = 2619, .memory_low = 1593,
   .links = 18, .pci_device = 0x233010DE, .pci_subsystem = 0x16C110DE,
   .capability_major = 9, .capability_minor = 0, .mig = 1},
  {.key = "L40S", .name = "NVIDIA L40S", .memory_mib = 46068, .reserved_mib = 566,
   .power_min = 100000, .power_default = 350000, .power_max = 350000, .power_idle = 35000,
   .gpu_min = 210, .gpu_max = 2520, .gpu_idle = 210, .memory_clock = 9001, .memory_idle = 405, .memory_low = 405,
   .links = 0, .pci_device = 0x26B910DE, .pci_subsystem = 0x185110DE,
   .capability_major = 8, .capability_minor = 9, .mig = 0},
};
static Gpu gpus[MAX_GPUS];
static unsigned count;

static const char *folder(const char *variable, const char *otherwise) {
  const char *set = secure_getenv(variable);
  return set && *set ? set : otherwise;
}
static const char *run_folder(void) { return folder("SWARM_NVML_RUN", "/run/swarm-nvml"); }

static FILE *open_in(const char *where, const char *name) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", where, name);
  return fopen(path, "re");
}

FILE *run_file(const char *name) { return open_in(run_folder(), name); }

static const Model *model_of(const char *key) {
  for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
    if (!strcmp(MODELS[i].key, key)) return &MODELS[i];
  return NULL;
}

Return inventory_load(void) {
  FILE *file = open_in(folder("SWARM_NVML_ETC", "/etc/swarm-nvml"), "gpus");
  char line[256], key[32];
  if (!file) return 9; /* driver not loaded: a machine without GPUs */
  for (count = 0; count < MAX_GPUS && fgets(line, sizeof line, file);) {
    Gpu *gpu = &gpus[count];
    unsigned domain;
    gpu->linked = gpu->pcie = 0;
    if (*line == '#' || sscanf(line, "%u %31s %31s %79s %u %u %u", &gpu->index, key, gpu->bus_id, gpu->uuid, &gpu->numa,
                               &gpu->linked, &gpu->pcie) < 5)
      continue;
    gpu->model = model_of(key);
    if (!gpu->model || sscanf(gpu->bus_id, "%x:%x", &domain, &gpu->bus) != 2) continue;
    gpu->index = count++;
  }
  fclose(file);
  return OK;
}
void inventory_drop(void) { count = 0; }
unsigned gpu_count(void) { return count; }
Gpu *gpu_at(unsigned index) { return index < count ? &gpus[index] : NULL; }

static Settings defaults(const Gpu *gpu) { return (Settings){.power = gpu->model->power_default}; }

static void settings_read(Settings all[MAX_GPUS]) {
  char line[256];
  for (unsigned i = 0; i < count; i++) all[i] = defaults(&gpus[i]);
  FILE *file = open_in(run_folder(), "state");
  if (!file) return;
  while (fgets(line, sizeof line, file)) {
    Settings s;
    unsigned index;
    if (sscanf(line, "%u %u %u %u %u %u %u", &index, &s.persistence, &s.power, &s.gpu_min, &s.gpu_max, &s.memory_min,
               &s.memory_max) == 7 && index < count)
      all[index] = s;
  }
  fclose(file);
}

Settings settings_of(const Gpu *gpu) {
  Settings all[MAX_GPUS];
  settings_read(all);
  return all[gpu->index];
}

int may_set(void) {
  if (mkdir(run_folder(), 0755) == 0) return 1;
  return faccessat(AT_FDCWD, run_folder(), W_OK, AT_EACCESS) == 0;
}

static Return settings_write(const Settings all[MAX_GPUS]) {
  char path[512], fresh[560];
  snprintf(path, sizeof path, "%s/state", run_folder());
  snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
  FILE *file = fopen(fresh, "we");
  if (!file) return OPERATING_SYSTEM;
  for (unsigned i = 0; i < count; i++) {
    const Settings *s = &all[i];
    fprintf(file, "%u %u %u %u %u %u %u\n", i, s->persistence, s->power, s->gpu_min, s->gpu_max, s->memory_min, s->memory_max);
  }
  int bad = ferror(file);
  if (fclose(file) || bad || rename(fresh, path)) {
    unlink(fresh);
    return OPERATING_SYSTEM;
  }
  return OK;
}

/* Read, change and replace under a lock, so that two processes never lose each other's setting. */
static int locked(void) {
  char path[512];
  snprintf(path, sizeof path, "%s/lock", run_folder());
  int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock >= 0 && flock(lock, LOCK_EX)) {
    close(lock);
    return -1;
  }
  return lock;
}

Return settings_change(const Gpu *gpu, void (*change)(Settings *, const void *), const void *wish) {
  Settings all[MAX_GPUS];
  if (!may_set()) return NO_PERMISSION;
  int lock = locked();
  if (lock < 0) return OPERATING_SYSTEM;
  settings_read(all);
  change(&all[gpu->index], wish);
  Return result = settings_write(all);
  close(lock);
  return result;
}

static void migs_read(Mig all[MAX_GPUS]) {
  char line[256];
  unsigned index, id, profile, start, compute;
  memset(all, 0, MAX_GPUS * sizeof *all);
  FILE *file = open_in(run_folder(), "mig");
  if (!file) return;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "mode %u", &index) == 1 && index < MAX_GPUS) all[index].mode = 1;
    if (sscanf(line, "at %u %u %u %u %u", &index, &id, &profile, &start, &compute) == 5 && index < MAX_GPUS && id < MIG_IDS) {
      all[index].at[id].there = 1;
      all[index].at[id].profile = profile;
      all[index].at[id].start = start;
      all[index].at[id].compute = compute;
    }
  }
  fclose(file);
}

Mig mig_of(const Gpu *gpu) {
  Mig all[MAX_GPUS];
  migs_read(all);
  return all[gpu->index];
}

static Return migs_write(const Mig all[MAX_GPUS]) {
  char path[512], fresh[560];
  snprintf(path, sizeof path, "%s/mig", run_folder());
  snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid());
  FILE *file = fopen(fresh, "we");
  if (!file) return OPERATING_SYSTEM;
  for (unsigned i = 0; i < MAX_GPUS; i++) {
    if (all[i].mode) fprintf(file, "mode %u\n", i);
    for (unsigned id = 0; id < MIG_IDS; id++)
      if (all[i].at[id].there)
        fprintf(file, "at %u %u %u %u %u\n", i, id, all[i].at[id].profile, all[i].at[id].start, all[i].at[id].compute);
  }
  int bad = ferror(file);
  if (fclose(file) || bad || rename(fresh, path)) {
    unlink(fresh);
    return OPERATING_SYSTEM;
  }
  return OK;
}

Return mig_change(const Gpu *gpu, void (*change)(Mig *, const void *), const void *wish) {
  Mig all[MAX_GPUS];
  if (!may_set()) return NO_PERMISSION;
  int lock = locked();
  if (lock < 0) return OPERATING_SYSTEM;
  migs_read(all);
  change(&all[gpu->index], wish);
  Return result = migs_write(all);
  close(lock);
  return result;
}

static int is_for(const char *which, const Gpu *gpu) { return !strcmp(which, "*") || (unsigned)atoi(which) == gpu->index; }

enum { HANGS = -1 };

static Return fault_now(const char *function, const Gpu *gpu) {
  char line[256], which[16], name[96];
  Return result = OK;
  int code;
  FILE *file = open_in(run_folder(), "faults");
  if (!file) return OK;
  while (result == OK && fgets(line, sizeof line, file)) {
    if (sscanf(line, "lost %15s", which) == 1 && is_for(which, gpu)) result = GPU_IS_LOST;
    else if (sscanf(line, "error %95s %15s %d", name, which, &code) == 3 && !strcmp(name, function) && is_for(which, gpu))
      result = code;
    else if (sscanf(line, "hang %95s %15s", name, which) == 2 && !strcmp(name, function) && is_for(which, gpu)) result = HANGS;
  }
  fclose(file);
  return result;
}

Return fault_of(const char *function, const Gpu *gpu) {
  Return result;
  while ((result = fault_now(function, gpu)) == HANGS) usleep(20000);
  return result;
}

/* Are all of its links down? */
int unlinked(const Gpu *gpu) {
  char line[256], which[16];
  int found = 0;
  FILE *file = open_in(run_folder(), "faults");
  if (!file) return 0;
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "unlinked %15s", which) == 1 && is_for(which, gpu)) found = 1;
  fclose(file);
  return found;
}

unsigned processes_of(const Gpu *gpu, Process *found, unsigned room) {
  char line[256];
  unsigned total = 0, index, pid;
  unsigned long long mib;
  FILE *file = open_in(run_folder(), "processes");
  if (!file) return 0;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "%u %u %llu", &index, &pid, &mib) != 3 || index != gpu->index) continue;
    if (found && total < room) found[total] = (Process){pid, mib << 20, ~0u, ~0u};
    total++;
  }
  fclose(file);
  return total;
}
