// A CUDA runtime, driver and cuBLAS that compute nothing: memory is real (lazily backed) host memory with a
// device's capacity, copies are real, kernels are only written down. LD_PRELOAD it before torch.
#define _GNU_SOURCE 1
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cublas_v2.h>
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <execinfo.h>
#include <pthread.h>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>
#include "capture.h"
#include "cards.h"
#define EX extern "C" __attribute__((visibility("default")))

static double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}
static const char* env(const char* k, const char* d) {
  const char* v = getenv(k);
  return v && *v ? v : d;
}
static thread_local int current = 0;
static FakeCard& card(int device = current) {
  static FakeCard held[FAKE_MOST];
  static int many = fake_visible(held);
  return held[device < many ? device : 0];
}
static int card_count() {
  FakeCard held[FAKE_MOST];
  static int many = fake_visible(held);
  return many;
}
static size_t total_mem(int device = current) { return (size_t)(card(device).gib * (1ull << 30)); }
static size_t context_mem() {
  static size_t t = (size_t)(atof(env("FAKECUDA_CONTEXT_MIB", "450")) * (1 << 20));
  return t;
}
static int cc_major(int device = current) { return card(device).cc / 10; }
static int cc_minor(int device = current) { return card(device).cc % 10; }
static int sms(int device = current) {
  return atoi(env("FAKECUDA_SMS", cc_major(device) == 9 ? "132" : "128"));
}

// ---- the record
// -------------------------------------------------------------------------------------------------
struct Entry {
  char kind;
  const char* name;
  unsigned g[3], b[3];
  long long x[4];
  double t;
  unsigned long tid;
};
// kinds: K kernel, G gemm, S host sync, C copy, M malloc, F free, P graph launch, B begin capture,
// N captured kernel, gemm or copy, R the same replayed
static std::mutex mu;
static std::vector<Entry> rec;
static bool recording = false;
static unsigned long long counts[256];
static void note(char kind, const char* name, dim3 g = dim3(0, 0, 0), dim3 b = dim3(0, 0, 0),
                 long long a0 = 0, long long a1 = 0, long long a2 = 0, long long a3 = 0) {
  __sync_fetch_and_add(&counts[(unsigned char)kind], 1);
  if (!recording) return;
  std::lock_guard<std::mutex> l(mu);
  rec.push_back({kind,
                 name,
                 {g.x, g.y, g.z},
                 {b.x, b.y, b.z},
                 {a0, a1, a2, a3},
                 now_us(),
                 (unsigned long)pthread_self()});
}
static const char* intern(const std::string& s) {
  static std::unordered_map<std::string, const char*> held;
  static std::mutex m;
  std::lock_guard<std::mutex> l(m);
  auto it = held.find(s);
  if (it != held.end()) return it->second;
  const char* c = strdup(s.c_str());
  held[s] = c;
  return c;
}
EX void fakecuda_record(int on) {
  std::lock_guard<std::mutex> l(mu);
  recording = on;
  if (on == 1) rec.clear();
}
EX long long fakecuda_count(int kind) { return counts[kind & 255]; }
EX int fakecuda_dump(const char* path) {
  std::lock_guard<std::mutex> l(mu);
  FILE* f = fopen(path, "w");
  if (!f) return -1;
  for (auto& e : rec)
    fprintf(f, "%c\t%s\t%u,%u,%u\t%u,%u,%u\t%lld,%lld,%lld,%lld\t%.1f\t%lx\n", e.kind, e.name, e.g[0], e.g[1],
            e.g[2], e.b[0], e.b[1], e.b[2], e.x[0], e.x[1], e.x[2], e.x[3], e.t, e.tid);
  fclose(f);
  return (int)rec.size();
}
static size_t taken = 0;  // what other processes take of the first card while this one runs
EX void fakecuda_others_take(unsigned long long bytes) { taken = bytes; }
static size_t others(int device) {
  return (size_t)(card(device).others * (1ull << 30)) + (device == 0 ? taken : 0);
}
static void unknown(const char* n) {
  static bool say = getenv("FAKECUDA_VERBOSE");
  if (say) fprintf(stderr, "[fakecuda] %s\n", n);
}
EX void fakecuda_stub_called(const char* n) {
  unknown(n);
  note('U', n);
}

// ---- memory
// -----------------------------------------------------------------------------------------------------
struct Region {
  size_t first;
  char second;  // D device, H pinned, M managed, V reserved address space
  int device;
};
static std::map<uintptr_t, Region> regions;
static size_t used_of[FAKE_MOST], peak_of[FAKE_MOST];
static std::mutex mm;
EX unsigned long long fakecuda_used() { return used_of[0]; }
EX unsigned long long fakecuda_peak() { return peak_of[0]; }
EX void fakecuda_reset_peak() { peak_of[0] = used_of[0]; }
// FAKECUDA_REFUSES=n:k refuses k allocations from the n-th on.
static bool refused() {
  static const char* range = getenv("FAKECUDA_REFUSES");
  static long long number = 0;
  if (!range) return false;
  const char* many = strchr(range, ':');
  long long from = atoll(range), to = from + (many ? atoll(many + 1) : 1);
  ++number;
  return number >= from && number < to;
}
static bool take(size_t n, int device) {
  size_t& used = used_of[device];
  if (refused() || used + others(device) + n > total_mem(device) - context_mem()) return false;
  used += n;
  if (used > peak_of[device]) peak_of[device] = used;
  return true;
}
static void* map_lazy(size_t n, int prot = PROT_READ | PROT_WRITE) {
  void* p = mmap(nullptr, n, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}
static char kind_of(const void* p) {
  std::lock_guard<std::mutex> l(mm);
  auto it = regions.upper_bound((uintptr_t)p);
  if (it == regions.begin()) return 0;
  --it;
  return (uintptr_t)p < it->first + it->second.first ? it->second.second : 0;
}
static thread_local cudaError_t last = cudaSuccess;
static cudaError_t told(cudaError_t e) {
  if (e != cudaSuccess) last = e;
  return e;
}
static size_t up(size_t n, size_t to) { return (n + to - 1) / to * to; }
// Returns from a call that is refused while a stream is captured.
#define REFUSED_IN_CAPTURE \
  if (cudaError_t e = unsafe_call()) return told(e);
EX cudaError_t cudaMalloc(void** p, size_t n) {
  REFUSED_IN_CAPTURE
  std::lock_guard<std::mutex> l(mm);
  n = up(n ? n : 1, 512);
  if (!take(up(n, 2 << 20), current)) {
    *p = nullptr;
    return told(cudaErrorMemoryAllocation);
  }
  *p = map_lazy(n);
  regions[(uintptr_t)*p] = {n, 'D', current};
  note('M', "cudaMalloc", dim3(0, 0, 0), dim3(0, 0, 0), n);
  return cudaSuccess;
}
EX cudaError_t cudaFree(void* p) {
  REFUSED_IN_CAPTURE
  note('S', "cudaFree");
  if (!p) return cudaSuccess;
  std::lock_guard<std::mutex> l(mm);
  auto it = regions.find((uintptr_t)p);
  if (it == regions.end()) return told(cudaErrorInvalidValue);
  if (it->second.second == 'D') used_of[it->second.device] -= up(it->second.first, 2 << 20);
  munmap(p, it->second.first);
  regions.erase(it);
  return cudaSuccess;
}
EX cudaError_t cudaMallocAsync(void** p, size_t n, cudaStream_t) { return cudaMalloc(p, n); }
EX cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
EX cudaError_t cudaHostAlloc(void** p, size_t n, unsigned) {
  REFUSED_IN_CAPTURE
  n = up(n ? n : 1, 4096);
  *p = map_lazy(n);
  std::lock_guard<std::mutex> l(mm);
  regions[(uintptr_t)*p] = {n, 'H'};
  note('M', "cudaHostAlloc", dim3(0, 0, 0), dim3(0, 0, 0), n);
  return cudaSuccess;
}
EX cudaError_t cudaMallocHost(void** p, size_t n) { return cudaHostAlloc(p, n, 0); }
EX cudaError_t cudaFreeHost(void* p) {
  REFUSED_IN_CAPTURE
  std::lock_guard<std::mutex> l(mm);
  auto it = regions.find((uintptr_t)p);
  if (it != regions.end()) {
    munmap(p, it->second.first);
    regions.erase(it);
  }
  return cudaSuccess;
}
EX cudaError_t cudaMallocManaged(void** p, size_t n, unsigned) {
  REFUSED_IN_CAPTURE
  n = up(n ? n : 1, 4096);
  *p = map_lazy(n);
  std::lock_guard<std::mutex> l(mm);
  regions[(uintptr_t)*p] = {n, 'M'};
  note('M', "cudaMallocManaged", dim3(0, 0, 0), dim3(0, 0, 0), n);
  return cudaSuccess;
}
EX cudaError_t cudaHostRegister(void* p, size_t n, unsigned) {
  std::lock_guard<std::mutex> l(mm);
  regions[(uintptr_t)p] = {n, 'H'};
  return cudaSuccess;
}
EX cudaError_t cudaHostUnregister(void* p) {
  std::lock_guard<std::mutex> l(mm);
  regions.erase((uintptr_t)p);
  return cudaSuccess;
}
EX cudaError_t cudaMemGetInfo(size_t* f, size_t* t) {
  *t = total_mem();
  *f = total_mem() - context_mem() - used_of[current] - others(current);
  return cudaSuccess;
}
EX cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  memset(a, 0, sizeof *a);
  char k = kind_of(p);
  a->type = k == 'D' || k == 'V' ? cudaMemoryTypeDevice
            : k == 'H'           ? cudaMemoryTypeHost
            : k == 'M'           ? cudaMemoryTypeManaged
                                 : cudaMemoryTypeUnregistered;
  {
    std::lock_guard<std::mutex> l(mm);
    auto it = regions.upper_bound((uintptr_t)p);
    a->device = k ? std::prev(it)->second.device : 0;
  }
  a->devicePointer = (void*)p;
  a->hostPointer = (void*)p;
  return cudaSuccess;
}
static cudaError_t copy(void* d, const void* s, size_t n, const char* name, bool waits,
                        cudaStream_t stream) {
  char kd = kind_of(d), ks = kind_of(s);
  bool dd = kd == 'D' || kd == 'V', ds = ks == 'D' || ks == 'V';
  // Pageable memory is copied by way of a buffer of the driver's, which a graph does not hold.
  if (!waits && (!kd || !ks) && wait_for(stream)) return told(cudaErrorStreamCaptureUnsupported);
  cudaError_t e;
  if (takes(stream, {'C', d, s, dd && ds ? 0 : n, 0}, &e)) {
    if (!e) note('N', name);
    return told(e);
  }
  // x: bytes, 1 to device / 2 from device / 3 within, host side pinned, waits
  note('C', name, dim3(0, 0, 0), dim3(0, 0, 0), n,
       dd && ds ? 3
       : dd     ? 1
       : ds     ? 2
                : 0,
       ks == 'H' || kd == 'H', waits);
  if (!(dd && ds) && n) memmove(d, s, n);
  return cudaSuccess;
}
EX cudaError_t cudaMemcpy(void* d, const void* s, size_t n, cudaMemcpyKind) {
  REFUSED_IN_CAPTURE
  in_flight.waited(nullptr);
  note('S', "cudaMemcpy");
  return copy(d, s, n, "cudaMemcpy", true, nullptr);
}
EX cudaError_t cudaMemcpyAsync(void* d, const void* s, size_t n, cudaMemcpyKind,
                               cudaStream_t stream) {
  return copy(d, s, n, "cudaMemcpyAsync", false, stream);
}
EX cudaError_t cudaMemcpyPeerAsync(void* d, int, const void* s, int, size_t n,
                                   cudaStream_t stream) {
  return copy(d, s, n, "cudaMemcpyPeerAsync", false, stream);
}
EX cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
  return cudaSuccess;
}
static void set(void* p, int v, size_t n) {
  if (n < 1 << 16) memset(p, v, n);
}
EX cudaError_t cudaMemsetAsync(void* p, int v, size_t n, cudaStream_t stream) {
  cudaError_t e;
  if (takes(stream, {'Z', p, nullptr, n, v}, &e)) {
    if (!e) note('N', "memset");
    return told(e);
  }
  note('K', "memset", dim3(0, 0, 0), dim3(0, 0, 0), n);
  set(p, v, n);
  return cudaSuccess;
}
EX cudaError_t cudaMemset(void* p, int v, size_t n) {
  REFUSED_IN_CAPTURE
  return cudaMemsetAsync(p, v, n, nullptr);
}
EX cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t) {
  return cudaSuccess;
}

// ---- device
// -----------------------------------------------------------------------------------------------------
// FAKENVML_CUDA: the CUDA that the driver supports; torch here is built for the major version 13.
static int supported() { return atoi(env("FAKENVML_CUDA", "13020")); }
EX cudaError_t cudaGetDeviceCount(int* n) {
  *n = 0;
  if (supported() < 13000) return told(cudaErrorInsufficientDriver);
  *n = card_count();
  return *n ? cudaSuccess : cudaErrorNoDevice;
}
EX cudaError_t cudaGetDevice(int* d) {
  *d = current;
  return cudaSuccess;
}
EX cudaError_t cudaSetDevice(int d) {
  current = d;
  return cudaSuccess;
}
EX cudaError_t cudaDriverGetVersion(int* v) {
  *v = supported();
  return cudaSuccess;
}
EX cudaError_t cudaRuntimeGetVersion(int* v) {
  *v = 13020;
  return cudaSuccess;
}
EX cudaError_t cudaDeviceSynchronize() {
  REFUSED_IN_CAPTURE
  in_flight.waited_for_all();
  note('S', "cudaDeviceSynchronize");
  return cudaSuccess;
}
EX cudaError_t cudaGetLastError() {
  cudaError_t e = last;
  last = cudaSuccess;
  return e;
}
EX cudaError_t cudaPeekAtLastError() { return last; }
EX const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureImplicit:
      return "operation would make the legacy stream depend on a capturing blocking stream";
    case cudaErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    default:
      return "fake error";
  }
}
EX const char* cudaGetErrorName(cudaError_t e) {
  return e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError";
}
EX cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  memset(p, 0, sizeof *p);
  snprintf(p->name, 256, "%s%s", card(device).name, card(device).slices ? " MIG" : "");
  bool h = cc_major(device) == 9;
  memset(&p->uuid, 7 + card(device).number, 16);
  p->totalGlobalMem = total_mem(device);
  p->sharedMemPerBlock = 49152;
  p->regsPerBlock = 65536;
  p->warpSize = 32;
  p->memPitch = 2147483647;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 65536;
  p->major = cc_major(device);
  p->minor = cc_minor(device);
  p->textureAlignment = 512;
  p->texturePitchAlignment = 32;
  p->multiProcessorCount = sms(device);
  p->canMapHostMemory = 1;
  p->concurrentKernels = 1;
  p->pciBusID = 1 + card(device).number;
  p->asyncEngineCount = 2;
  p->unifiedAddressing = 1;
  p->memoryBusWidth = h ? 5120 : 384;
  p->l2CacheSize = h ? 52428800 : 75497472;
  p->maxThreadsPerMultiProcessor = h ? 2048 : 1536;
  p->streamPrioritiesSupported = 1;
  p->globalL1CacheSupported = p->localL1CacheSupported = 1;
  p->sharedMemPerMultiprocessor = h ? 233472 : 102400;
  p->regsPerMultiprocessor = 65536;
  p->managedMemory = 1;
  p->concurrentManagedAccess = 1;
  p->cooperativeLaunch = 1;
  p->sharedMemPerBlockOptin = h ? 232448 : 101376;
  p->maxBlocksPerMultiProcessor = h ? 32 : 24;
  p->reservedSharedMemPerBlock = 1024;
  p->hostRegisterSupported = 1;
  p->memoryPoolsSupported = 1;
  p->clusterLaunch = h;
  return cudaSuccess;
}
static int attribute(int a, int device) {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, device);
  switch (a) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 49152;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return sms(device);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return cc_major(device);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return cc_minor(device);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return p.sharedMemPerMultiprocessor;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return p.sharedMemPerBlockOptin;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return p.maxThreadsPerMultiProcessor;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 2520000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 10501000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return p.memoryBusWidth;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return p.maxBlocksPerMultiProcessor;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return p.l2CacheSize;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
      return 1;
    default:
      return 0;
  }
}
EX cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr a, int device) {
  *v = attribute((int)a, device);
  return cudaSuccess;
}
EX cudaError_t cudaDeviceGetPCIBusId(char* s, int n, int device) {
  snprintf(s, n, "0000:%02x:00.0", 1 + card(device).number);
  return cudaSuccess;
}
EX cudaError_t cudaDeviceCanAccessPeer(int* v, int, int) {
  *v = 0;
  return cudaSuccess;
}
EX cudaError_t cudaDeviceGetStreamPriorityRange(int* a, int* b) {
  if (a) *a = 0;
  if (b) *b = -5;
  return cudaSuccess;
}

// ---- streams and events
// -------------------------------------------------------------------------------------------
static std::atomic<long> handles{0x1000};
template <class T>
static T handle() {
  return (T)(uintptr_t)(handles += 16);
}
EX cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int) {
  *s = (cudaStream_t) new Stream{!(flags & cudaStreamNonBlocking)};
  return cudaSuccess;
}
EX cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  return cudaStreamCreateWithPriority(s, flags, 0);
}
EX cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithPriority(s, 0, 0); }
EX cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
EX cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (cudaError_t e = wait_for(s)) return told(e);
  note('S', "cudaStreamSynchronize");
  return cudaSuccess;
}
EX cudaError_t cudaStreamQuery(cudaStream_t s) { return told(wait_for(s)); }
EX cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags) {
  return told(order_after(s, (Event*)e, flags));
}
EX cudaError_t cudaStreamGetPriority(cudaStream_t, int* p) {
  *p = 0;
  return cudaSuccess;
}
EX cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = (cudaEvent_t) new Event{};
  return cudaSuccess;
}
EX cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
EX cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete (Event*)e;
  return cudaSuccess;
}
EX cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  ((Event*)e)->t = now_us();
  return told(record_event((Event*)e, s));
}
EX cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned) {
  return cudaEventRecord(e, s);
}
EX cudaError_t cudaEventQuery(cudaEvent_t e) {
  REFUSED_IN_CAPTURE
  return told(wait_for_event((Event*)e));
}
EX cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  REFUSED_IN_CAPTURE
  if (cudaError_t found = wait_for_event((Event*)e)) return told(found);
  note('S', "cudaEventSynchronize");
  return cudaSuccess;
}
EX cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  *ms = (((Event*)b)->t - ((Event*)a)->t) / 1e3;
  return cudaSuccess;
}
EX cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus* o, unsigned long long* id,
                                        cudaGraph_t* g, const cudaGraphNode_t** d,
                                        const cudaGraphEdgeData** ed, size_t* n) {
  std::lock_guard<std::mutex> l(sm);
  Capture* c = captured_by(s);
  *o = !c          ? cudaStreamCaptureStatusNone
       : c->broken ? cudaStreamCaptureStatusInvalidated
                   : cudaStreamCaptureStatusActive;
  if (id) *id = c ? c->id : 0;
  if (g) *g = c ? (cudaGraph_t)c->graph : nullptr;
  if (d) *d = nullptr;
  if (ed) *ed = nullptr;
  if (n) *n = 0;
  return cudaSuccess;
}
EX cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* o) {
  return cudaStreamGetCaptureInfo(s, o, nullptr, nullptr, nullptr, nullptr, nullptr);
}
EX cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  note('B', "beginCapture");
  return told(begin_capture(s, mode));
}
EX cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* g) { return told(end_capture(s, g)); }
EX cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
EX cudaError_t cudaGraphInstantiate(cudaGraphExec_t* e, cudaGraph_t g, unsigned long long) {
  REFUSED_IN_CAPTURE
  *e = (cudaGraphExec_t) new Graph(*(Graph*)g);
  return cudaSuccess;
}
EX cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* e, cudaGraph_t g, unsigned long long flags) {
  return cudaGraphInstantiate(e, g, flags);
}
EX cudaError_t cudaGraphDestroy(cudaGraph_t g) {
  delete (Graph*)g;
  return cudaSuccess;
}
EX cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) {
  delete (Graph*)e;
  return cudaSuccess;
}
// Its copies are made: what they read of the host's memory is read now.
EX cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s) {
  // Not a wait, but as little allowed in a capture.
  if (cudaError_t found = wait_for(s)) return told(found);
  in_flight.launch(s);
  Graph* g = (Graph*)e;
  note('P', "graphLaunch", dim3(0, 0, 0), dim3(0, 0, 0), g->nodes.size());
  __sync_fetch_and_add(&counts['R'], g->nodes.size());
  for (auto& node : g->nodes) {
    if (node.kind == 'C' && node.n) memmove(node.to, node.from, node.n);
    if (node.kind == 'Z') set(node.to, node.value, node.n);
  }
  return cudaSuccess;
}
EX cudaError_t cudaGraphGetNodes(cudaGraph_t g, cudaGraphNode_t*, size_t* n) {
  *n = ((Graph*)g)->nodes.size();
  return cudaSuccess;
}
EX cudaError_t cudaUserObjectCreate(cudaUserObject_t* o, void*, cudaHostFn_t, unsigned, unsigned) {
  *o = handle<cudaUserObject_t>();
  return cudaSuccess;
}

// ---- kernels
// ------------------------------------------------------------------------------------------------------
static std::unordered_map<const void*, const char*> names;
static std::mutex nm;
EX void** __cudaRegisterFatBinary(void*) {
  static void* h[4];
  return h;
}
EX void __cudaRegisterFatBinaryEnd(void**) {}
EX void __cudaUnregisterFatBinary(void**) {}
EX void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, void*, void*, void*,
                               void*, int*) {
  std::lock_guard<std::mutex> l(nm);
  names[host] = name;
}
EX void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
EX char __cudaInitModule(void**) { return 1; }
struct Config {
  dim3 g, b;
  size_t sh;
  void* st;
};
static thread_local std::vector<Config> configs;
EX unsigned __cudaPushCallConfiguration(dim3 g, dim3 b, size_t sh, void* st) {
  configs.push_back({g, b, sh, st});
  return 0;
}
EX cudaError_t __cudaPopCallConfiguration(dim3* g, dim3* b, size_t* sh, void* st) {
  Config c = configs.back();
  configs.pop_back();
  *g = c.g;
  *b = c.b;
  *sh = c.sh;
  *(void**)st = c.st;
  return cudaSuccess;
}
static const char* name_of(const void* f) {
  std::lock_guard<std::mutex> l(nm);
  auto it = names.find(f);
  return it == names.end() ? "?" : it->second;
}
static cudaError_t kernel(const char* name, dim3 g, dim3 b, size_t sh, cudaStream_t stream, int driver) {
  cudaError_t e;
  if (takes(stream, {'K', nullptr, nullptr, 0, 0}, &e)) {
    if (!e) note('N', name, g, b, sh, driver);
    return told(e);
  }
  note('K', name, g, b, sh, driver);
  return cudaSuccess;
}
static cudaError_t launched(const void* f, dim3 g, dim3 b, size_t sh, cudaStream_t stream) {
  if (!g.x || !g.y || !g.z || g.y > 65535 || g.z > 65535 || (size_t)b.x * b.y * b.z > 1024 || !b.x) {
    fprintf(stderr, "[fakecuda] invalid launch of %s grid %u,%u,%u block %u,%u,%u\n", name_of(f), g.x, g.y,
            g.z, b.x, b.y, b.z);
    return told(cudaErrorInvalidConfiguration);
  }
  return kernel(name_of(f), g, b, sh, stream, 0);
}
EX cudaError_t __cudaGetKernel(cudaKernel_t* k, const void* f) {
  *k = (cudaKernel_t)f;
  return cudaSuccess;
}
EX cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 g, dim3 b, void**, size_t sh, cudaStream_t stream) {
  return launched((const void*)k, g, b, sh, stream);
}
EX cudaError_t cudaLaunchKernel(const void* f, dim3 g, dim3 b, void**, size_t sh, cudaStream_t stream) {
  return launched(f, g, b, sh, stream);
}
EX cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* f, void**) {
  return launched(f, c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream);
}
EX cudaError_t cudaLaunchCooperativeKernel(const void* f, dim3 g, dim3 b, void**, size_t sh,
                                           cudaStream_t stream) {
  return launched(f, g, b, sh, stream);
}
// torch is built for some capabilities only; a card runs the code of the nearest one below its own. CUB refuses any other.
static int built_for() {
  int own = cc_major() * 10 + cc_minor();
  for (int built : {120, 100, 90, 86, 80, 75})
    if (built <= own) return built;
  return own;
}
EX cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) {
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = 1024;
  a->numRegs = 64;
  a->ptxVersion = built_for();
  a->binaryVersion = a->ptxVersion;
  a->maxDynamicSharedSizeBytes = 101376;
  return cudaSuccess;
}
EX cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
EX cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void*, int bs, size_t) {
  *n = bs >= 512 ? 2 : 4;
  return cudaSuccess;
}
EX cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void* f, int bs, size_t s,
                                                                      unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(n, f, bs, s);
}
EX cudaError_t cudaGetSymbolAddress(void** p, const void*) {
  static char room[4096];
  *p = room;
  return cudaSuccess;
}

// ---- driver
// -------------------------------------------------------------------------------------------------------
struct Chunk {
  size_t n;
  int device;
};
EX CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
EX CUresult cuDriverGetVersion(int* v) {
  *v = 13020;
  return CUDA_SUCCESS;
}
EX CUresult cuDeviceGetCount(int* n) {
  *n = card_count();
  return CUDA_SUCCESS;
}
EX CUresult cuDeviceGet(CUdevice* d, int i) {
  *d = i;
  return CUDA_SUCCESS;
}
EX CUresult cuDeviceGetName(char* s, int n, CUdevice device) {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, device);
  strncpy(s, p.name, n);
  return CUDA_SUCCESS;
}
EX CUresult cuDeviceGetAttribute(int* v, CUdevice_attribute a, CUdevice device) {
  *v = attribute((int)a, device);
  return CUDA_SUCCESS;
}
EX CUresult cuDeviceTotalMem_v2(size_t* n, CUdevice device) {
  *n = total_mem(device);
  return CUDA_SUCCESS;
}
EX CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice) {
  *c = (CUcontext)0x77;
  return CUDA_SUCCESS;
}
EX CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* f, int* a) {
  if (f) *f = 0;
  *a = 1;
  return CUDA_SUCCESS;
}
EX CUresult cuCtxGetCurrent(CUcontext* c) {
  *c = (CUcontext)0x77;
  return CUDA_SUCCESS;
}
EX CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
EX CUresult cuCtxGetDevice(CUdevice* d) {
  *d = current;
  return CUDA_SUCCESS;
}
EX CUresult cuCtxPushCurrent_v2(CUcontext) { return CUDA_SUCCESS; }
EX CUresult cuCtxPopCurrent_v2(CUcontext* c) {
  if (c) *c = (CUcontext)0x77;
  return CUDA_SUCCESS;
}
EX CUresult cuGetErrorString(CUresult e, const char** s) {
  *s = e == CUDA_ERROR_ILLEGAL_ADDRESS ? "memory was unmapped under a replay" : "fake driver error";
  return CUDA_SUCCESS;
}
EX CUresult cuMemGetAllocationGranularity(size_t* g, const CUmemAllocationProp*,
                                          CUmemAllocationGranularity_flags) {
  *g = 2 << 20;
  return CUDA_SUCCESS;
}
EX CUresult cuMemAddressReserve(CUdeviceptr* p, size_t n, size_t, CUdeviceptr, unsigned long long) {
  void* q = map_lazy(n, PROT_NONE);
  if (!q) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard<std::mutex> l(mm);
  regions[(uintptr_t)q] = {n, 'V'};
  *p = (CUdeviceptr)q;
  return CUDA_SUCCESS;
}
EX CUresult cuMemAddressFree(CUdeviceptr p, size_t n) {
  std::lock_guard<std::mutex> l(mm);
  munmap((void*)p, n);
  regions.erase((uintptr_t)p);
  return CUDA_SUCCESS;
}
EX CUresult cuMemCreate(CUmemGenericAllocationHandle* h, size_t n, const CUmemAllocationProp* prop,
                        unsigned long long) {
  std::lock_guard<std::mutex> l(mm);
  if (!take(n, prop->location.id)) return CUDA_ERROR_OUT_OF_MEMORY;
  *h = (CUmemGenericAllocationHandle) new Chunk{n, prop->location.id};
  note('M', "cuMemCreate", dim3(0, 0, 0), dim3(0, 0, 0), n);
  return CUDA_SUCCESS;
}
EX CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
  std::lock_guard<std::mutex> l(mm);
  used_of[((Chunk*)h)->device] -= ((Chunk*)h)->n;
  delete (Chunk*)h;
  return CUDA_SUCCESS;
}
EX CUresult cuMemMap(CUdeviceptr p, size_t n, size_t, CUmemGenericAllocationHandle h, unsigned long long) {
  mprotect((void*)p, n, PROT_READ | PROT_WRITE);
  std::lock_guard<std::mutex> l(mm);
  auto it = regions.upper_bound((uintptr_t)p);
  if (it != regions.begin()) std::prev(it)->second.device = ((Chunk*)h)->device;
  return CUDA_SUCCESS;
}
EX CUresult cuMemUnmap(CUdeviceptr p, size_t n) {
  note('F', "cuMemUnmap");
  if (in_flight.any()) return CUDA_ERROR_ILLEGAL_ADDRESS;
  madvise((void*)p, n, MADV_DONTNEED);
  mprotect((void*)p, n, PROT_NONE);
  return CUDA_SUCCESS;
}
EX CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }
EX CUresult cuMemGetAddressRange_v2(CUdeviceptr* b, size_t* n, CUdeviceptr p) {
  if (b) *b = p;
  if (n) *n = 0;
  return CUDA_SUCCESS;
}
EX CUresult cuPointerGetAttribute(void* d, CUpointer_attribute a, CUdeviceptr p) {
  char k = kind_of((void*)p);
  if (a == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) {
    if (!k) return CUDA_ERROR_INVALID_VALUE;
    *(CUdeviceptr*)d = p;
    return CUDA_SUCCESS;
  }
  *(int*)d = k == 'H' ? 1 : 2;
  return CUDA_SUCCESS;
}
struct Module {
  std::string none;
};
EX CUresult cuModuleLoadData(CUmodule* m, const void*) {
  if (cudaError_t e = unsafe_call()) return (CUresult)e;
  *m = (CUmodule) new Module;
  return CUDA_SUCCESS;
}
EX CUresult cuModuleLoadDataEx(CUmodule* m, const void* i, unsigned, CUjit_option*, void**) {
  return cuModuleLoadData(m, i);
}
EX CUresult cuModuleLoad(CUmodule* m, const char*) { return cuModuleLoadData(m, nullptr); }
EX CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
EX CUresult cuModuleGetFunction(CUfunction* f, CUmodule, const char* n) {
  *f = (CUfunction)intern(n);
  return CUDA_SUCCESS;
}
EX CUresult cuFuncGetAttribute(int* v, CUfunction_attribute a, CUfunction) {
  *v = a == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : a == CU_FUNC_ATTRIBUTE_NUM_REGS ? 64 : 0;
  return CUDA_SUCCESS;
}
EX CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
EX CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
EX CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void**, void**) {
  return (CUresult)kernel((const char*)f, dim3(c->gridDimX, c->gridDimY, c->gridDimZ),
                          dim3(c->blockDimX, c->blockDimY, c->blockDimZ), c->sharedMemBytes,
                          (cudaStream_t)c->hStream, 1);
}
EX CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                           unsigned bz, unsigned sh, CUstream stream, void**, void**) {
  return (CUresult)kernel((const char*)f, dim3(gx, gy, gz), dim3(bx, by, bz), sh, (cudaStream_t)stream, 1);
}
EX CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                      unsigned by, unsigned bz, unsigned sh, CUstream stream,
                                      void**) {
  return (CUresult)kernel((const char*)f, dim3(gx, gy, gz), dim3(bx, by, bz), sh, (cudaStream_t)stream, 1);
}
EX CUresult cuOccupancyMaxActiveClusters(int* n, CUfunction, const CUlaunchConfig*) {
  *n = 1;
  return CUDA_SUCCESS;
}
EX CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, CUfunction, int, size_t) {
  *n = 2;
  return CUDA_SUCCESS;
}
EX CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus* o) {
  cudaStreamCaptureStatus c;
  cudaStreamIsCapturing(s, &c);
  *o = (CUstreamCaptureStatus)c;
  return CUDA_SUCCESS;
}
EX CUresult cuCtxGetLimit(size_t* v, CUlimit) {
  *v = 1 << 20;
  return CUDA_SUCCESS;
}
EX CUresult cuCtxSetLimit(CUlimit, size_t) { return CUDA_SUCCESS; }
EX CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                   const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                                   CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                   CUtensorMapFloatOOBfill) {
  return CUDA_SUCCESS;
}
static CUresult driver_stub() {
  unknown("driver stub");
  return CUDA_SUCCESS;
}
EX cudaError_t cudaGetDriverEntryPointByVersion(const char* n, void** f, unsigned, unsigned long long,
                                                cudaDriverEntryPointQueryResult* st) {
  std::string v2 = std::string(n) + "_v2";
  void* p = dlsym(RTLD_DEFAULT, n);
  if (!p) p = dlsym(RTLD_DEFAULT, v2.c_str());
  *f = p ? p : (void*)driver_stub;
  if (st) *st = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
EX CUresult cuGetProcAddress_v2(const char* n, void** f, int, cuuint64_t,
                                CUdriverProcAddressQueryResult* st) {
  cudaGetDriverEntryPointByVersion(n, f, 0, 0, nullptr);
  if (st) *st = CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}
EX CUresult cuGetExportTable(const void**, const CUuuid*) { return CUDA_ERROR_NOT_FOUND; }

// ---- cuBLAS
// -------------------------------------------------------------------------------------------------------
static int bytes_of(int t) {
  switch (t) {
    case CUDA_R_32F:
    case CUDA_R_32I:
      return 4;
    case CUDA_R_64F:
      return 8;
    case CUDA_R_8I:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return 1;
    default:
      return 2;
  }
}
struct Handle {
  cudaStream_t stream;
};
EX cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t s) {
  ((Handle*)h)->stream = s;
  return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t gemm(cudaStream_t stream, const char* n, long long m, long long nn, long long k, int ta,
                           int tc, long long batch, int opA, int opB) {
  cudaError_t e;
  if (takes(stream, {'G', nullptr, nullptr, 0, 0}, &e)) {
    if (!e) note('N', n, dim3((unsigned)m, (unsigned)nn, (unsigned)k));
    told(e);
    return e ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
  }
  note('G', n, dim3((unsigned)m, (unsigned)nn, (unsigned)k),
       dim3(bytes_of(ta), bytes_of(tc), (unsigned)batch), opA, opB, ta, tc);
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasCreate_v2(cublasHandle_t* h) {
  *h = (cublasHandle_t)calloc(1, 64);
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* v) {
  *v = 130401;
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t* m) {
  *m = CUBLAS_DEFAULT_MATH;
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t, cublasPointerMode_t* m) {
  *m = CUBLAS_POINTER_MODE_HOST;
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t a, cublasOperation_t b, int m, int n, int k,
                               const void*, const void*, cudaDataType ta, int, const void*, cudaDataType, int,
                               const void*, void*, cudaDataType tc, int, cublasComputeType_t,
                               cublasGemmAlgo_t) {
  return gemm(((Handle*)h)->stream, "cublasGemmEx", m, n, k, ta, tc, 1, a, b);
}
EX cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t a, cublasOperation_t b, int m, int n,
                                 int k, const float*, const float*, int, const float*, int, const float*,
                                 float*, int) {
  return gemm(((Handle*)h)->stream, "cublasSgemm", m, n, k, CUDA_R_32F, CUDA_R_32F, 1, a, b);
}
EX cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t a, cublasOperation_t b, int m, int n, int k,
                                const float*, const void*, cudaDataType ta, int, const void*, cudaDataType,
                                int, const float*, void*, cudaDataType tc, int) {
  return gemm(((Handle*)h)->stream, "cublasSgemmEx", m, n, k, ta, tc, 1, a, b);
}
EX cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t h, cublasOperation_t a, cublasOperation_t b, int m,
                                             int n, int k, const void*, const void*, cudaDataType ta, int,
                                             long long, const void*, cudaDataType, int, long long,
                                             const void*, void*, cudaDataType tc, int, long long, int c,
                                             cublasComputeType_t, cublasGemmAlgo_t) {
  return gemm(((Handle*)h)->stream, "cublasGemmStridedBatchedEx", m, n, k, ta, tc, c, a, b);
}
EX cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t a, cublasOperation_t b, int m,
                                            int n, int k, const float*, const float*, int, long long,
                                            const float*, int, long long, const float*, float*, int,
                                            long long, int c) {
  return gemm(((Handle*)h)->stream, "cublasSgemmStridedBatched", m, n, k, CUDA_R_32F, CUDA_R_32F, c, a, b);
}
EX cublasStatus_t cublasSgemv_v2(cublasHandle_t h, cublasOperation_t a, int m, int n, const float*,
                                 const float*, int, const float*, int, const float*, float*, int) {
  return gemm(((Handle*)h)->stream, "cublasSgemv", m, 1, n, CUDA_R_32F, CUDA_R_32F, 1, a, 0);
}
struct Layout {
  int type;
  unsigned long long rows, cols;
  int batch;
};
struct Desc {
  int ta = 0, tb = 0, epilogue = 1;
};
EX cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
  *h = (cublasLtHandle_t)calloc(1, 64);
  return CUBLAS_STATUS_SUCCESS;
}
EX size_t cublasLtGetVersion() { return 130401; }
EX cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType t, uint64_t r,
                                             uint64_t c, int64_t) {
  *l = (cublasLtMatrixLayout_t) new Layout{t, r, c, 1};
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete (Layout*)l;
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                   cublasLtMatrixLayoutAttribute_t a, const void* v, size_t) {
  if (a == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) ((Layout*)l)->batch = *(const int*)v;
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t, cudaDataType_t) {
  *d = (cublasLtMatmulDesc_t) new Desc;
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete (Desc*)d;
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t a,
                                                 const void* v, size_t) {
  Desc* x = (Desc*)d;
  if (a == CUBLASLT_MATMUL_DESC_TRANSA) x->ta = *(const int*)v;
  if (a == CUBLASLT_MATMUL_DESC_TRANSB) x->tb = *(const int*)v;
  if (a == CUBLASLT_MATMUL_DESC_EPILOGUE) x->epilogue = *(const int*)v;
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  *p = (cublasLtMatmulPreference_t)calloc(1, 64);
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  free(p);
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                 cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                 cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                 cublasLtMatmulPreference_t, int,
                                                 cublasLtMatmulHeuristicResult_t r[], int* n) {
  memset(&r[0], 0, sizeof r[0]);
  r[0].state = CUBLAS_STATUS_SUCCESS;
  *n = 1;
  return CUBLAS_STATUS_SUCCESS;
}
EX cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void*, const void*,
                                 cublasLtMatrixLayout_t A, const void*, cublasLtMatrixLayout_t, const void*,
                                 const void*, cublasLtMatrixLayout_t, void*, cublasLtMatrixLayout_t D,
                                 const cublasLtMatmulAlgo_t*, void*, size_t, cudaStream_t stream) {
  Layout *a = (Layout*)A, *o = (Layout*)D;
  Desc* x = (Desc*)d;
  return gemm(stream, "cublasLtMatmul", o->rows, o->cols, x->ta ? a->rows : a->cols, a->type, o->type, o->batch,
              x->ta, x->tb);
}
