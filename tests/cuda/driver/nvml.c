// The few questions of NVML that the CLI, torch and pynvml ask. It counts cards by PCI bus, and knows nothing
// of CUDA's variables. FAKENVML_FAILS: the number of an error that nvmlInit gives.
#include "cards.h"
typedef void* D;
enum { NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, SLICE = 1000 };
static FakeCard cards[FAKE_MOST];
static int count(void) { return fake_cards(cards); }
static int slice_of(D d) { return (long)d >= SLICE; }
static FakeCard* card(D d) {
  count();
  return &cards[(long)d % SLICE - 1];
}
static int unsupported(void) { return getenv("FAKENVML_NO_UTIL") != 0; }
int nvmlInit_v2(void) { return atoi(fake_env("FAKENVML_FAILS", "0")); }
int nvmlInit(void) { return nvmlInit_v2(); }
int nvmlInitWithFlags(unsigned f) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int e) { return e == NOT_SUPPORTED ? "Not Supported" : "fake"; }
int nvmlDeviceGetCount_v2(unsigned* n) {
  *n = count();
  return 0;
}
int nvmlDeviceGetCount(unsigned* n) { return nvmlDeviceGetCount_v2(n); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, D* d) {
  if (getenv("FAKENVML_NO_CARD")) return NO_PERMISSION;
  *d = (D)(long)(i + 1);
  return i < count() ? 0 : NOT_FOUND;
}
int nvmlDeviceGetHandleByUUID(const char* u, D* d) {
  for (int i = 0; i < count(); i++) {
    if (!strcmp(u, cards[i].uuid)) return *d = (D)(long)(i + 1), 0;
    if (cards[i].slices && !strcmp(u, cards[i].slice)) return *d = (D)(long)(SLICE + i + 1), 0;
  }
  return NOT_FOUND;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* u, D* d) {
  *d = (D)1;
  return 0;
}
int nvmlDeviceGetName(D d, char* s, unsigned n) {
  snprintf(s, n, "%s%s", card(d)->name, slice_of(d) ? " MIG" : "");
  return 0;
}
int nvmlDeviceGetUUID(D d, char* s, unsigned n) {
  snprintf(s, n, "%s", slice_of(d) ? card(d)->slice : card(d)->uuid);
  return 0;
}
typedef struct {
  unsigned long long total, free, used;
} M;
typedef struct {
  unsigned v;
  unsigned long long total, reserved, free, used;
} M2;
int nvmlDeviceGetMemoryInfo_v2(D d, M2* m) {
  FakeCard* c = card(d);
  if (getenv("FAKENVML_NO_MEMORY")) return NOT_SUPPORTED;
  m->total = c->gib * (1ull << 30) / (slice_of(d) ? c->slices : 1);
  m->reserved = 0;
  m->used = c->others * (1ull << 30);
  m->free = m->total - m->used;
  return 0;
}
int nvmlDeviceGetMemoryInfo(D d, M* m) {
  M2 whole;
  int refused = nvmlDeviceGetMemoryInfo_v2(d, &whole);
  if (refused) return refused;
  m->total = whole.total;
  m->used = whole.used;
  m->free = whole.free;
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(D d, int* a, int* b) {
  *a = card(d)->cc / 10;
  *b = card(d)->cc % 10;
  return 0;
}
typedef struct {
  unsigned gpu, memory;
} U;
int nvmlDeviceGetUtilizationRates(D d, U* u) {
  if (unsupported()) return NOT_SUPPORTED;
  u->gpu = 99;
  u->memory = 50;
  return 0;
}
int nvmlDeviceGetNumGpuCores(D d, unsigned* n) {
  *n = card(d)->gib * 1000;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(D d, int kind, unsigned* n) {
  *n = 2000;
  return 0;
}
int nvmlSystemGetDriverVersion(char* s, unsigned n) {
  snprintf(s, n, "%s", fake_env("FAKENVML_DRIVER", "595.00"));
  return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int* v) {
  *v = atoi(fake_env("FAKENVML_CUDA", "13020"));
  return 0;
}
int nvmlSystemGetCudaDriverVersion(int* v) { return nvmlSystemGetCudaDriverVersion_v2(v); }
int nvmlDeviceGetComputeRunningProcesses_v3(D d, unsigned* n, void* p) {
  *n = 0;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses(D d, unsigned* n, void* p) {
  *n = 0;
  return 0;
}
int nvmlDeviceGetMigMode(D d, unsigned* c, unsigned* p) {
  *c = *p = card(d)->slices > 0;
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(D d, unsigned* n) {
  *n = card(d)->slices ? 7 : 0;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(D d, unsigned i, D* m) {
  if (i || !card(d)->slices) return NOT_FOUND;
  *m = (D)(SLICE + (long)d);
  return 0;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(D m, D* d) {
  *d = (D)((long)m % SLICE);
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(D d, unsigned l, void* t) { return 3; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(D d, unsigned l, void* t) { return 3; }
int nvmlDeviceGetGpuFabricInfoV(D d, void* t) { return 3; }
int nvmlDeviceGetTemperature(D d, int s, unsigned* t) {
  *t = 60;
  return 0;
}
int nvmlDeviceGetPowerUsage(D d, unsigned* t) {
  *t = 400000;
  return 0;
}
