#include "codegen/cache/cache_state.h"

#include <chrono>
#include <utility>

namespace minuet {

bool has_another(const PendingBuild& landed, const Binary& refused) {
  const auto* const binary = std::get_if<std::shared_ptr<const Binary>>(&landed.get());
  return binary != nullptr && binary->get() != &refused;
}

PendingBuild CacheState::claim(const std::string& key, const Binary* refused, std::promise<Outcome>& promise,
                               bool& ours) {
  State& known = state_.get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  PendingBuild& flight = known.flights[key];
  const auto is_over = [&] {
    return refused != nullptr && flight.wait_for(std::chrono::seconds(0)) == std::future_status::ready &&
           !has_another(flight, *refused);
  };
  ours = !flight.valid() || is_over();
  if (ours) {
    flight = promise.get_future().share();
  } else {
    ++known.stats.memory_hits;
  }
  return flight;
}

std::shared_ptr<const Binary> CacheState::find_landed(const std::string& key) {
  State& known = state_.get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  const auto flight = known.flights.find(key);
  if (flight == known.flights.end() ||
      flight->second.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return nullptr;
  const auto* const binary = std::get_if<std::shared_ptr<const Binary>>(&flight->second.get());
  if (binary == nullptr) return nullptr;
  ++known.stats.memory_hits;
  return *binary;
}

void CacheState::invalidate(const std::string& key) {
  State& known = state_.get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  known.flights.erase(key);
}

void CacheState::count(const Binary& binary, BinaryOrigin origin) {
  State& known = state_.get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  known.events.push_back({binary.display_name, binary.arch, origin});
  CacheStats& stats = known.stats;
  stats.cubin_bytes += static_cast<std::int64_t>(binary.cubin.size());
  if (origin == BinaryOrigin::Compiled) stats.compile_ms += binary.compile_ms;
  ++(origin == BinaryOrigin::Bundle ? stats.bundle_hits
     : origin == BinaryOrigin::Disk ? stats.disk_hits
                                    : stats.compiled);
}

void CacheState::count_failure() {
  State& known = state_.get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  ++known.stats.failures;
}

void CacheState::count_wait(double milliseconds, bool timed_out) {
  State& known = state_.get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  ++known.stats.waits;
  known.stats.wait_ms += milliseconds;
  if (timed_out) ++known.stats.lock_timeouts;
}

CacheStats CacheState::stats() const {
  State& known = state_.get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  return known.stats;
}

std::vector<CacheEvent> CacheState::events() const {
  State& known = state_.get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  return known.events;
}

void CacheState::note_published(const std::string& build_key) {
  State& known = state_.get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  known.last_published = build_key;
}

std::string CacheState::last_published() const {
  State& known = state_.get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  return known.last_published;
}

bool CacheState::is_first_of_kind(const std::string& text) {
  State& known = state_.get();
  const std::lock_guard<std::mutex> lock(known.mutex);
  return known.warned.insert(text.substr(0, text.find_first_of("(:"))).second;
}

}  // namespace minuet
