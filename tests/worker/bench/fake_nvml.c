/* A stand-in for the NVIDIA driver's library: one GPU whose state stands in the environment,
   or FAKE_CARDS of them, of which the second one is as busy as FAKE_BUSY_OF_SECOND says. */

#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, UNKNOWN = 999 };

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct { unsigned int pid; unsigned long long bytes; unsigned int instance, compute; } process_t;

static long value(const char *name) {
    const char *text = getenv(name);
    return text && *text ? atol(text) : -1;
}

static int put(const char *name, unsigned int *into) {
    long found = value(name);
    if (found < 0) return NOT_SUPPORTED;
    *into = (unsigned int)found;
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned int flags) { (void)flags; return value("FAKE_BROKEN") > 0 ? UNKNOWN : SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == NOT_SUPPORTED ? "Not Supported" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char *into, unsigned int size) { strncpy(into, "999.1", size); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = value("FAKE_CARDS") > 0 ? value("FAKE_CARDS") : 1; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) { *handle = (void *)(index + 1L); return SUCCESS; }
int nvmlDeviceGetName(void *h, char *into, unsigned int size) { (void)h; strncpy(into, "Fake GPU", size); return SUCCESS; }

int nvmlDeviceGetUUID(void *h, char *into, unsigned int size) {
    (void)size;
    strcpy(into, (long)h == 1 ? "GPU-1111-0000" : "GPU-2222-0000");
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *h, utilization_t *into) {
    into->memory = 0;
    put("FAKE_MEMORY_BUSY", &into->memory);
    return put((long)h == 2 ? "FAKE_BUSY_OF_SECOND" : "FAKE_BUSY", &into->gpu);
}

int nvmlDeviceGetMemoryInfo(void *h, memory_t *into) {
    (void)h;
    long total = value("FAKE_TOTAL_MIB"), used = value("FAKE_USED_MIB");
    if (total < 0 || used < 0) return NOT_SUPPORTED;
    into->total = (unsigned long long)total << 20;
    into->used = (unsigned long long)used << 20;
    into->free = into->total - into->used;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *h, int sensor, unsigned int *into) { (void)h; (void)sensor; return put("FAKE_CELSIUS", into); }
int nvmlDeviceGetPowerUsage(void *h, unsigned int *into) { (void)h; return put("FAKE_MILLIWATTS", into); }
int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned int *into) { (void)h; return put("FAKE_LIMIT_MILLIWATTS", into); }
int nvmlDeviceGetClockInfo(void *h, int kind, unsigned int *into) { (void)h; return put(kind == 1 ? "FAKE_MHZ" : "FAKE_MEMORY_MHZ", into); }
int nvmlDeviceGetMaxClockInfo(void *h, int kind, unsigned int *into) { (void)h; (void)kind; return put("FAKE_MAX_MHZ", into); }

int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *into) {
    (void)h;
    long bits = value("FAKE_REASONS");
    *into = bits < 0 ? 0 : (unsigned long long)bits;
    return SUCCESS;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *h, unsigned long long *into) { return nvmlDeviceGetCurrentClocksThrottleReasons(h, into); }

int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned int *count, process_t *into) {
    (void)h;
    long pid = value("FAKE_PID");
    if (pid < 0) { *count = 0; return SUCCESS; }
    if (*count < 1) { *count = 1; return INSUFFICIENT_SIZE; }
    *count = 1;
    memset(into, 0, sizeof *into);
    into->pid = (unsigned int)pid;
    into->bytes = (unsigned long long)value("FAKE_PID_MIB") << 20;
    return SUCCESS;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, unsigned int *count, process_t *into) { (void)h; (void)into; *count = 0; return SUCCESS; }
