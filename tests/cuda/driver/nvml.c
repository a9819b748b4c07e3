// The few questions of NVML that the CLI, torch and pynvml ask.
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
typedef void* D;
static double gib(void) {
  const char* v = getenv("FAKECUDA_GIB");
  return v ? atof(v) : 23.52;
}
static int cc(void) {
  const char* v = getenv("FAKECUDA_CC");
  return v ? atoi(v) : 89;
}
static int unsupported(void) { return getenv("FAKENVML_NO_UTIL") != 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlInit(void) { return 0; }
int nvmlInitWithFlags(unsigned f) { return 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int e) { return e == 3 ? "Not Supported" : "fake"; }
int nvmlDeviceGetCount_v2(unsigned* n) {
  const char* v = getenv("FAKECUDA_DEVICES");
  *n = v ? atoi(v) : 1;
  return 0;
}
int nvmlDeviceGetCount(unsigned* n) { return nvmlDeviceGetCount_v2(n); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, D* d) {
  *d = (D)(long)(i + 1);
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* u, D* d) {
  *d = (D)1;
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* u, D* d) {
  *d = (D)1;
  return 0;
}
int nvmlDeviceGetName(D d, char* s, unsigned n) {
  snprintf(s, n, cc() == 90 ? "NVIDIA H100 80GB HBM3 (fake)" : "NVIDIA GeForce RTX 4090 (fake)");
  return 0;
}
int nvmlDeviceGetUUID(D d, char* s, unsigned n) {
  snprintf(s, n, "GPU-07070707-0707-0707-0707-070707070707");
  return 0;
}
typedef struct {
  unsigned long long total, free, used;
} M;
int nvmlDeviceGetMemoryInfo(D d, M* m) {
  m->total = gib() * (1ull << 30);
  m->used = 450 << 20;
  m->free = m->total - m->used;
  return 0;
}
typedef struct {
  unsigned v;
  unsigned long long total, reserved, free, used;
} M2;
int nvmlDeviceGetMemoryInfo_v2(D d, M2* m) {
  m->total = gib() * (1ull << 30);
  m->reserved = 0;
  m->used = 450 << 20;
  m->free = m->total - m->used;
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(D d, int* a, int* b) {
  *a = cc() / 10;
  *b = cc() % 10;
  return 0;
}
typedef struct {
  unsigned gpu, memory;
} U;
int nvmlDeviceGetUtilizationRates(D d, U* u) {
  if (unsupported()) return 3;
  u->gpu = 99;
  u->memory = 50;
  return 0;
}
int nvmlSystemGetDriverVersion(char* s, unsigned n) {
  snprintf(s, n, "595.00");
  return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int* v) {
  *v = 13020;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(D d, unsigned* n, void* p) {
  *n = 0;
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses(D d, unsigned* n, void* p) {
  *n = 0;
  return 0;
}
int nvmlDeviceGetMigMode(D d, unsigned* c, unsigned* p) {
  *c = *p = 0;
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
