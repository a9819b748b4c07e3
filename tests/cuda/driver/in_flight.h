// Replays that may still run: nothing has waited for their stream since. Memory that is unmapped meanwhile is an
// illegal access on a card, where unmapping waits for nothing.
#pragma once
#include <cuda_runtime_api.h>
#include <climits>
#include <map>
#include <mutex>

struct InFlight {
  std::mutex m;
  long launched = 0;
  // The number of each stream's last replay.
  std::map<cudaStream_t, long> last;

  void launch(cudaStream_t s) {
    std::lock_guard<std::mutex> l(m);
    last[s] = ++launched;
  }
  long of(cudaStream_t s) {
    std::lock_guard<std::mutex> l(m);
    auto it = last.find(s);
    return it == last.end() ? 0 : it->second;
  }
  // A wait for a stream's work up to that replay, by default for all of it.
  void waited(cudaStream_t s, long number = LONG_MAX) {
    std::lock_guard<std::mutex> l(m);
    auto it = last.find(s);
    if (it != last.end() && it->second <= number) last.erase(it);
  }
  void waited_for_all() {
    std::lock_guard<std::mutex> l(m);
    last.clear();
  }
  bool any() {
    std::lock_guard<std::mutex> l(m);
    return !last.empty();
  }
};
static InFlight in_flight;
