// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0
//
// A libnvidia-ml.so.1 for machines without a GPU. It has three GPUs: two alike
// (index 0 and 1) and one (index 2) that is divided into two MIG instances.
// Files beside the library change what it says while it is in use:
//   no-driver   nvmlInit_v2 finds no driver
//   lost-N      GPU N has fallen off the bus
//   rows-N      GPU N could not remap a row of its memory
//   hang        every call waits until the file is gone
//   on-demand   GPU 2 is divided by its user: gi-N holds the profile and place of GPU
//               instance N, and ci-N is there if it has a compute instance
//   busy-N      a process uses GPU instance N
//   xid-N       holds the number of an error that GPU N reports once
// Types and numbers are those of nvml.h.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, IN_USE = 19, NO_RESOURCES = 23 };
typedef struct dev { int gpu, instance; } dev; // instance -1: the whole GPU
typedef const dev *handle;
static const dev gpus[] = {{0, -1}, {1, -1}, {2, -1}};
static const dev instances[] = {{2, 0}, {2, 1}, {2, 2}, {2, 3}, {2, 4}, {2, 5}, {2, 6}, {2, 7}};
#define GIB (1024ull * 1024 * 1024)

static int there(const char *name, int n, char *path, size_t room) {
	Dl_info self;
	char buf[4096];
	if (!path) { path = buf; room = sizeof buf; }
	dladdr((void *)gpus, &self);
	const char *slash = strrchr(self.dli_fname, '/');
	int dir = slash ? (int)(slash - self.dli_fname) : 0;
	if (n < 0) snprintf(path, room, "%.*s/%s", dir, self.dli_fname, name);
	else snprintf(path, room, "%.*s/%s-%d", dir, self.dli_fname, name, n);
	return access(path, F_OK) == 0;
}
static void hang(void) { while (there("hang", -1, 0, 0)) usleep(1000); }
static int enter(handle d) {
	hang();
	return there("lost", d->gpu, 0, 0) ? GPU_IS_LOST : SUCCESS;
}
static int whole(handle d) {
	int r = enter(d);
	return r ? r : d->instance >= 0 ? NOT_SUPPORTED : SUCCESS;
}
#define ENTER(f) do { int r_ = f(d); if (r_) return r_; } while (0)

// The GPU instances of a GPU that is divided on demand, in files, since processes share them.
typedef struct { unsigned start, size; } place;
typedef struct { unsigned n, id, slices, memory; const char *name; unsigned places, starts[7], size; } profile;
static const profile profiles[] = {
	{0, 19, 1, 4864, "MIG 1g.5gb", 7, {0, 1, 2, 3, 4, 5, 6}, 1},
	{1, 14, 2, 9856, "MIG 2g.10gb", 3, {0, 2, 4}, 2},
	{2, 9, 3, 19968, "MIG 3g.20gb", 2, {0, 4}, 4},
	{4, 0, 7, 40192, "MIG 7g.40gb", 1, {0}, 8},
};
#define PROFILES 4
enum { PARTS = 8 };
static const int parts[PARTS] = {0, 1, 2, 3, 4, 5, 6, 7};
typedef const int *part;
static int demanded(void) { return there("on-demand", -1, 0, 0); }
static const profile *profile_of(unsigned id) {
	for (int i = 0; i < PROFILES; i++) if (profiles[i].id == id) return &profiles[i];
	return 0;
}
static int load(int n, unsigned *id, place *at) {
	char path[4096];
	FILE *f;
	if (!there("gi", n, path, sizeof path) || !(f = fopen(path, "r"))) return 0;
	int ok = fscanf(f, "%u %u %u", id, &at->start, &at->size) == 3;
	fclose(f);
	return ok;
}
static void put(const char *name, int n, const char *text) {
	char path[4096];
	there(name, n, path, sizeof path);
	FILE *f = fopen(path, "w");
	fputs(text, f);
	fclose(f);
}
static void drop(const char *name, int n) {
	char path[4096];
	if (there(name, n, path, sizeof path)) unlink(path);
}

const char *nvmlErrorString(int r) {
	switch (r) {
	case NOT_SUPPORTED: return "Not Supported";
	case DRIVER_NOT_LOADED: return "Driver Not Loaded";
	case GPU_IS_LOST: return "GPU is lost";
	case TIMEOUT: return "Timeout";
	case IN_USE: return "In use by another client";
	case NO_RESOURCES: return "Insufficient Resources";
	default: return "Error";
	}
}
int nvmlInit_v2(void) { return there("no-driver", -1, 0, 0) ? DRIVER_NOT_LOADED : SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char *v, unsigned n) { hang(); snprintf(v, n, "550.90.07"); return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12040; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *n) { hang(); *n = 3; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, handle *out) {
	if (i > 2) return INVALID;
	handle d = &gpus[i];
	ENTER(enter);
	*out = d;
	return SUCCESS;
}
int nvmlDeviceGetUUID(handle d, char *v, unsigned n) {
	ENTER(enter);
	if (d->instance >= 0) snprintf(v, n, "MIG-0000000%d-aaaa-bbbb-cccc-ddddeeeeffff", d->instance);
	else snprintf(v, n, "GPU-0000000%d-aaaa-bbbb-cccc-ddddeeeeffff", d->gpu);
	return SUCCESS;
}
int nvmlDeviceGetName(handle d, char *v, unsigned n) {
	ENTER(enter);
	unsigned id;
	place at;
	if (d->instance >= 0 && demanded() && load(d->instance, &id, &at)) {
		snprintf(v, n, "NVIDIA A100-SXM4-40GB %s", profile_of(id)->name);
		return SUCCESS;
	}
	snprintf(v, n, "%s", d->instance >= 0 ? "NVIDIA A100-SXM4-40GB MIG 3g.20gb" : d->gpu == 2 ? "NVIDIA A100-SXM4-40GB" : "Tesla T4");
	return SUCCESS;
}
int nvmlDeviceGetMinorNumber(handle d, unsigned *v) { ENTER(whole); *v = d->gpu; return SUCCESS; }
typedef struct { char legacy[16]; unsigned domain, bus, device, vendor, subsystem; char id[32]; } pci;
int nvmlDeviceGetPciInfo_v3(handle d, pci *v) {
	ENTER(whole);
	memset(v, 0, sizeof *v);
	snprintf(v->id, sizeof v->id, "00000000:%02X:00.0", 0x3b + d->gpu);
	return SUCCESS;
}
typedef struct { unsigned long long total, free, used; } mem;
static void fill(mem *v, unsigned long long total, unsigned long long used) { v->total = total; v->used = used; v->free = total - used; }
int nvmlDeviceGetMemoryInfo(handle d, mem *v) {
	ENTER(enter);
	fill(v, d->instance >= 0 ? 20 * GIB : d->gpu == 2 ? 40 * GIB : 15 * GIB, 2 * GIB);
	return SUCCESS;
}
int nvmlDeviceGetBAR1MemoryInfo(handle d, mem *v) { ENTER(whole); fill(v, GIB / 4, GIB / 64); return SUCCESS; }
int nvmlDeviceGetPowerManagementLimit(handle d, unsigned *v) { ENTER(whole); *v = d->gpu == 1 ? 60000 : 70000; return SUCCESS; }
int nvmlDeviceGetPowerUsage(handle d, unsigned *v) { ENTER(whole); *v = 26500; return SUCCESS; }
int nvmlDeviceGetMaxClockInfo(handle d, unsigned kind, unsigned *v) { ENTER(whole); *v = kind == 2 ? 5001 : 1590; return SUCCESS; }
int nvmlDeviceGetMaxPcieLinkGeneration(handle d, unsigned *v) { ENTER(whole); *v = 3; return SUCCESS; }
int nvmlDeviceGetMaxPcieLinkWidth(handle d, unsigned *v) { ENTER(whole); *v = 16; return SUCCESS; }
int nvmlDeviceGetDisplayActive(handle d, unsigned *v) { ENTER(whole); *v = 0; return SUCCESS; }
int nvmlDeviceGetPersistenceMode(handle d, unsigned *v) { ENTER(whole); *v = 1; return SUCCESS; }
int nvmlDeviceGetCudaComputeCapability(handle d, int *major, int *minor) { ENTER(enter); *major = d->gpu == 2 ? 8 : 7; *minor = d->gpu == 2 ? 0 : 5; return SUCCESS; }
typedef struct { unsigned gpu, memory; } rates;
int nvmlDeviceGetUtilizationRates(handle d, rates *v) { ENTER(whole); v->gpu = 41; v->memory = 7; return SUCCESS; }
int nvmlDeviceGetEncoderUtilization(handle d, unsigned *v, unsigned *us) { ENTER(whole); *v = 3; *us = 1000; return SUCCESS; }
// nvmlDeviceGetDecoderUtilization is missing, as in a driver that is old.
int nvmlDeviceGetTemperature(handle d, unsigned sensor, unsigned *v) { ENTER(whole); *v = 44; return SUCCESS; }
typedef struct { unsigned long long l1, l2, memory, registers; } ecc;
int nvmlDeviceGetDetailedEccErrors(handle d, unsigned kind, unsigned counter, ecc *v) { ENTER(whole); memset(v, 0, sizeof *v); v->l2 = 1; v->memory = 2; return SUCCESS; }
int nvmlDeviceGetRemappedRows(handle d, unsigned *corr, unsigned *unc, unsigned *pending, unsigned *failed) {
	ENTER(whole);
	*corr = *unc = *pending = 0;
	*failed = there("rows", d->gpu, 0, 0);
	return SUCCESS;
}
int nvmlDeviceGetMigMode(handle d, unsigned *now, unsigned *later) {
	ENTER(whole);
	if (d->gpu < 2) return NOT_SUPPORTED;
	*now = *later = 1;
	return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(handle d, unsigned *v) { ENTER(whole); *v = 7; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(handle d, unsigned i, handle *out) {
	ENTER(whole);
	if (demanded()) {
		if (i >= PARTS || !there("gi", i, 0, 0) || !there("ci", i, 0, 0)) return NOT_FOUND;
		*out = &instances[i];
		return SUCCESS;
	}
	if (i == 0) *out = &instances[0];
	else if (i == 4) *out = &instances[1];
	else return NOT_FOUND;
	return SUCCESS;
}
int nvmlDeviceGetGpuInstanceId(handle d, unsigned *v) { ENTER(enter); *v = demanded() ? d->instance : d->instance + 1; return SUCCESS; }
int nvmlDeviceGetComputeInstanceId(handle d, unsigned *v) { ENTER(enter); *v = 0; return SUCCESS; }

typedef struct {
	unsigned version, id, p2p, slices, instances, processors, copies, decoders, encoders, jpeg, ofa;
	unsigned long long memory;
	char name[96];
} profile_info;
int nvmlDeviceGetGpuInstanceProfileInfoV(handle d, unsigned n, profile_info *v) {
	ENTER(whole);
	if (v->version != (sizeof *v | 2 << 24) || n > 10) return INVALID;
	for (int i = 0; i < PROFILES; i++) if (profiles[i].n == n) {
		v->id = profiles[i].id;
		v->slices = profiles[i].slices;
		v->instances = profiles[i].places;
		v->memory = profiles[i].memory;
		snprintf(v->name, sizeof v->name, "%s", profiles[i].name);
		return SUCCESS;
	}
	return NOT_SUPPORTED;
}
int nvmlDeviceGetGpuInstancePossiblePlacements_v2(handle d, unsigned id, place *at, unsigned *n) {
	ENTER(whole);
	const profile *p = profile_of(id);
	if (!p) return INVALID;
	for (unsigned i = 0; i < p->places; i++) { at[i].start = p->starts[i]; at[i].size = p->size; }
	*n = p->places;
	return SUCCESS;
}
int nvmlDeviceGetGpuInstances(handle d, unsigned id, part *out, unsigned *n) {
	ENTER(whole);
	*n = 0;
	for (int i = 0; i < PARTS; i++) {
		unsigned has;
		place at;
		if (load(i, &has, &at) && has == id) out[(*n)++] = &parts[i];
	}
	return SUCCESS;
}
typedef struct { handle device; unsigned id, profile; place at; } part_info;
int nvmlGpuInstanceGetInfo(part p, part_info *v) {
	memset(v, 0, sizeof *v);
	v->device = &gpus[2];
	v->id = *p;
	return load(*p, &v->profile, &v->at) ? SUCCESS : NOT_FOUND;
}
int nvmlDeviceCreateGpuInstanceWithPlacement(handle d, unsigned id, const place *at, part *out) {
	ENTER(whole);
	char text[64];
	int empty = -1;
	for (int i = PARTS - 1; i >= 0; i--) {
		unsigned has;
		place taken;
		if (!load(i, &has, &taken)) { empty = i; continue; }
		if (at->start < taken.start + taken.size && taken.start < at->start + at->size) return NO_RESOURCES;
	}
	if (empty < 0 || !profile_of(id)) return NO_RESOURCES;
	snprintf(text, sizeof text, "%u %u %u", id, at->start, at->size);
	put("gi", empty, text);
	*out = &parts[empty];
	return SUCCESS;
}
int nvmlDeviceGetGpuInstanceById(handle d, unsigned id, part *out) {
	ENTER(whole);
	if (id >= PARTS || !there("gi", id, 0, 0)) return NOT_FOUND;
	*out = &parts[id];
	return SUCCESS;
}
typedef struct { unsigned id, slices, rest[16]; } compute_info;
int nvmlGpuInstanceGetComputeInstanceProfileInfo(part p, unsigned n, unsigned engines, compute_info *v) {
	unsigned id;
	place at;
	if (!load(*p, &id, &at) || n >= PROFILES || profiles[n].slices > profile_of(id)->slices) return NOT_SUPPORTED;
	memset(v, 0, sizeof *v);
	v->id = n;
	v->slices = profiles[n].slices;
	return SUCCESS;
}
int nvmlGpuInstanceCreateComputeInstance(part p, unsigned id, void **out) {
	if (there("ci", *p, 0, 0)) return NO_RESOURCES;
	if (there("no-compute", -1, 0, 0)) return GPU_IS_LOST;
	put("ci", *p, "");
	*out = (void *)p;
	return SUCCESS;
}
int nvmlGpuInstanceGetComputeInstances(part p, unsigned id, void **out, unsigned *n) {
	unsigned has;
	place at;
	*n = 0;
	if (there("ci", *p, 0, 0) && load(*p, &has, &at) && profiles[id].slices == profile_of(has)->slices) out[(*n)++] = (void *)p;
	return SUCCESS;
}
int nvmlComputeInstanceDestroy(void *c) {
	part p = c;
	if (there("busy", *p, 0, 0)) return IN_USE;
	drop("ci", *p);
	return SUCCESS;
}
int nvmlGpuInstanceDestroy(part p) {
	if (there("ci", *p, 0, 0)) return IN_USE;
	drop("gi", *p);
	return SUCCESS;
}

typedef struct { handle device; unsigned long long kind, data; unsigned gi, ci; } event;
int nvmlEventSetCreate(void **set) { static int one; *set = &one; return SUCCESS; }
int nvmlEventSetFree(void *set) { return SUCCESS; }
int nvmlDeviceRegisterEvents(handle d, unsigned long long kinds, void *set) { ENTER(enter); return SUCCESS; }
int nvmlEventSetWait_v2(void *set, event *v, unsigned ms) {
	char path[4096];
	for (unsigned waited = 0;; waited++) {
		for (int i = 0; i < 3; i++) {
			FILE *f;
			if (!there("xid", i, path, sizeof path) || !(f = fopen(path, "r"))) continue;
			memset(v, 0, sizeof *v);
			v->device = &gpus[i];
			v->kind = 8;
			int ok = fscanf(f, "%llu", &v->data) == 1;
			fclose(f);
			if (ok) { unlink(path); return SUCCESS; }
		}
		if (waited >= ms) return TIMEOUT;
		usleep(1000);
	}
}
