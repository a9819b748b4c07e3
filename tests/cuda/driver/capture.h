// Stream capture. What CUDA refuses while a stream is captured is refused here, and ends the capture, so that a
// wait or an allocation in a captured region fails on the stand-in driver as it would on a card.
#pragma once
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>
#include "in_flight.h"

struct Node {
  char kind;  // K kernel, G product, C copy, Z memset
  void* to;
  const void* from;
  size_t n;
  int value;
};
struct Graph {
  std::vector<Node> nodes;
};
struct Capture {
  unsigned long long id;
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  pthread_t thread;
  bool broken = false;
  Graph* graph = new Graph;
  // How much each forked stream has queued, and whether the origin has waited for all of it.
  std::map<cudaStream_t, long> queued;
  std::map<cudaStream_t, long> joined;
};
struct Stream {
  bool blocking;  // ordered with the legacy stream
};
struct Event {
  double t;
  unsigned long long capture;  // 0 outside of one
  cudaStream_t stream;
  long queued;
  long replay;  // the stream's last one before it
};

static std::mutex sm;
static std::unordered_map<cudaStream_t, Capture*> capturing;
static std::set<Capture*> captures;
static thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

static bool is_legacy(cudaStream_t s) { return s == nullptr || s == cudaStreamLegacy; }
static Capture* captured_by(cudaStream_t s) {
  auto it = capturing.find(s);
  return it == capturing.end() ? nullptr : it->second;
}
static Capture* capture_of(unsigned long long id) {
  for (auto* c : captures)
    if (c->id == id) return c;
  return nullptr;
}

// A call that CUDA calls potentially unsafe: an allocation, or a wait for everything.
static cudaError_t unsafe_call() {
  std::lock_guard<std::mutex> l(sm);
  if (captures.empty() || thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t found = cudaSuccess;
  for (auto* c : captures) {
    bool own = pthread_equal(c->thread, pthread_self());
    bool forbids = own ? c->mode != cudaStreamCaptureModeRelaxed
                       : c->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
    if (!forbids) continue;
    c->broken = true;
    found = cudaErrorStreamCaptureUnsupported;
  }
  return found;
}
// A wait for one stream.
static cudaError_t wait_for(cudaStream_t s) {
  std::lock_guard<std::mutex> l(sm);
  if (Capture* c = captured_by(s)) {
    c->broken = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  in_flight.waited(s);
  return cudaSuccess;
}
// Whether work belongs to a capture, instead of being run; `error` is what its launch returns then.
static bool takes(cudaStream_t s, const Node& node, cudaError_t* error) {
  *error = cudaSuccess;
  std::lock_guard<std::mutex> l(sm);
  if (captures.empty()) return false;
  if (Capture* c = captured_by(s)) {
    if (c->broken) {
      *error = cudaErrorStreamCaptureInvalidated;
      return true;
    }
    c->graph->nodes.push_back(node);
    ++c->queued[s];
    return true;
  }
  if (!is_legacy(s)) return false;
  // The legacy stream waits for all blocking streams, which a captured one cannot be waited for.
  for (auto& [stream, c] : capturing)
    if (((Stream*)stream)->blocking) {
      c->broken = true;
      *error = cudaErrorStreamCaptureImplicit;
    }
  return *error != cudaSuccess;
}
static cudaError_t begin_capture(cudaStream_t s, cudaStreamCaptureMode mode) {
  static unsigned long long id = 0;
  std::lock_guard<std::mutex> l(sm);
  if (is_legacy(s)) return cudaErrorStreamCaptureUnsupported;
  if (captured_by(s)) return cudaErrorIllegalState;
  auto* c = new Capture{++id, s, mode, pthread_self()};
  capturing[s] = c;
  captures.insert(c);
  return cudaSuccess;
}
static cudaError_t end_capture(cudaStream_t s, cudaGraph_t* g) {
  std::lock_guard<std::mutex> l(sm);
  *g = nullptr;
  Capture* c = captured_by(s);
  if (!c || c->origin != s) return c ? cudaErrorStreamCaptureUnmatched : cudaErrorIllegalState;
  if (c->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(c->thread, pthread_self()))
    return cudaErrorStreamCaptureWrongThread;
  cudaError_t found = c->broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  for (auto& [stream, count] : c->queued)
    if (found == cudaSuccess && stream != s && c->joined[stream] < count)
      found = cudaErrorStreamCaptureUnjoined;
  for (auto it = capturing.begin(); it != capturing.end();)
    it = it->second == c ? capturing.erase(it) : std::next(it);
  captures.erase(c);
  if (found == cudaSuccess)
    *g = (cudaGraph_t)c->graph;
  else
    delete c->graph;
  delete c;
  return found;
}
static cudaError_t record_event(Event* e, cudaStream_t s) {
  std::lock_guard<std::mutex> l(sm);
  Capture* c = captured_by(s);
  if (c && c->broken) return cudaErrorStreamCaptureInvalidated;
  e->capture = c ? c->id : 0;
  e->stream = s;
  e->queued = c ? c->queued[s] : 0;
  e->replay = in_flight.of(s);
  return cudaSuccess;
}
// An event that a capture has recorded never happens.
static cudaError_t wait_for_event(const Event* e) {
  std::lock_guard<std::mutex> l(sm);
  if (!e->capture) {
    in_flight.waited(e->stream, e->replay);
    return cudaSuccess;
  }
  if (Capture* c = capture_of(e->capture)) c->broken = true;
  return cudaErrorCapturedEvent;
}
static cudaError_t order_after(cudaStream_t s, const Event* e, unsigned flags) {
  std::lock_guard<std::mutex> l(sm);
  Capture *own = captured_by(s), *of_event = capture_of(e->capture);
  if (flags & cudaEventWaitExternal) return cudaSuccess;
  if (own && own != of_event) {
    own->broken = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (!of_event) return cudaSuccess;
  if (of_event->broken) return cudaErrorStreamCaptureInvalidated;
  if (!own) capturing[s] = of_event;
  if (s == of_event->origin) of_event->joined[e->stream] = e->queued;
  return cudaSuccess;
}
