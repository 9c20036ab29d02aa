#include "tests/support/software_cuda/cublaslt_state.h"

#include <cstring>

namespace minuet::software {

State& State::get() {
  static State& state = *new State;  // never destroyed: handles may outlive any order of exits
  return state;
}

cublasLtHandle_t State::add_handle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  // A number that never comes again, so that what is used after its end is found.
  auto* handle = reinterpret_cast<cublasLtHandle_t>(++last_handle_ << 8);
  handles_.insert(handle);
  return handle;
}

bool State::has_handle(const void* handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return handles_.count(handle) != 0;
}

bool State::drop_handle(const void* handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return handles_.erase(handle) != 0;
}

std::optional<cublasStatus_t> State::begin(int64_t& count, Failures& failures) {
  ++count;
  if (failures.count <= 0) return std::nullopt;
  --failures.count;
  last_refusal_ = "a test asked for this failure";
  return failures.status;
}

std::optional<cublasStatus_t> State::begin_lookup() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return begin(counts_.lookups, wishes_.lookups);
}

std::optional<cublasStatus_t> State::begin_matmul() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return begin(counts_.matmuls, wishes_.matmuls);
}

void State::count_found() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.lookups_found;
}

void State::count_enqueued(const Algorithm& algorithm) {
  std::string bytes(reinterpret_cast<const char*>(&algorithm), sizeof(algorithm));
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.matmuls_enqueued;
  if (loaded_.insert(std::move(bytes)).second) ++counts_.kernels_loaded;
}

uint64_t State::count_product() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<uint64_t>(counts_.products++);
}

const char* State::hidden(const MatmulCall& call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (wishes_.hidden >> call.mode() & 1) return "a test hides the algorithms of this batch mode";
  const bool scarce = call.mode() == kPointers && wishes_.scarcity != 0;
  return scarce && hash_of(call) % wishes_.scarcity == 0 ? "pointer arrays of this shape have no algorithm"
                                                         : nullptr;
}

bool State::refuses_inexact() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return wishes_.exact_only;
}

cublasStatus_t State::wrong(const char* why, cublasStatus_t status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.wrong_calls;
  last_refusal_ = why;
  return status;
}

cublasStatus_t State::refuse(const char* why, cublasStatus_t status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_refusal_ = why;
  return status;
}

SoftwareCublasltCounts State::counts() {
  const std::lock_guard<std::mutex> lock(mutex_);
  SoftwareCublasltCounts counts = counts_;
  counts.handles = static_cast<int64_t>(handles_.size());
  return counts;
}

std::string State::last_refusal() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return last_refusal_;
}

void State::reset() {
  const std::lock_guard<std::mutex> lock(mutex_);
  counts_ = {};
  wishes_ = {};
  last_refusal_.clear();
}

}  // namespace minuet::software

using minuet::software::State;

void software_cublaslt_counts(SoftwareCublasltCounts* counts) { *counts = State::get().counts(); }

void software_cublaslt_last_refusal(char* text, std::size_t bytes) {
  if (bytes == 0) return;
  const std::string refusal = State::get().last_refusal();
  text[refusal.copy(text, bytes - 1)] = 0;
}

void software_cublaslt_fail_lookups(int64_t count, cublasStatus_t status) {
  State::get().wish([&](State::Wishes& wishes) { wishes.lookups = {count, status}; });
}

void software_cublaslt_fail_matmuls(int64_t count, cublasStatus_t status) {
  State::get().wish([&](State::Wishes& wishes) { wishes.matmuls = {count, status}; });
}

void software_cublaslt_hide_algorithms(uint32_t modes) {
  State::get().wish([&](State::Wishes& wishes) { wishes.hidden = modes; });
}

void software_cublaslt_set_scarcity(uint32_t one_in) {
  State::get().wish([&](State::Wishes& wishes) { wishes.scarcity = one_in; });
}

void software_cublaslt_refuse_inexact(int on) {
  State::get().wish([&](State::Wishes& wishes) { wishes.exact_only = on != 0; });
}

void software_cublaslt_reset() { State::get().reset(); }
