#include "tests/support/software_cuda/cublaslt_work.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/software_cuda/cublaslt_multiply.h"
#include "tests/support/software_cuda/cublaslt_state.h"

namespace minuet::software {
namespace {

constexpr uint64_t kWorkspaceAlignment = 16;

struct Member {
  const void* addresses[kOperands];
};

/// One operand's bytes.
struct Range {
  uintptr_t begin, end;
  bool written;
  std::string name;
};

/// What the two pieces share. A graph runs them again and again.
struct Running : MatmulWork {
  explicit Running(const MatmulWork& work) : MatmulWork(work) {}
  uint64_t stamp = 0;  // 0: the first piece has not run, or found a fault
};

bool divides(uint64_t alignment, const void* address) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

template <class... Parts>
std::string message(const Parts&... parts) {
  std::ostringstream text;
  text << "cublasLtMatmul: ";
  (text << ... << parts);
  return text.str();
}

using Problem = std::optional<std::string>;  // what the fault says; nothing where all is well

// ---- the workspace ------------------------------------------------------------------------------

Problem check_workspace(const Running& work) {
  if (work.algorithm.workspace == 0) return std::nullopt;
  if (!work.workspace) return message("the algorithm needs a workspace, and there is none");
  if (!divides(kWorkspaceAlignment, work.workspace)) {
    return message("the workspace ", static_cast<void*>(work.workspace), " is not aligned to ",
                   kWorkspaceAlignment);
  }
  if (!work.driver->holds(work.workspace, work.workspace_bytes)) {
    return message("the workspace of ", work.workspace_bytes, " bytes is in no allocation");
  }
  return std::nullopt;
}

/// Calls with the words that the algorithm uses: its first ones and its last ones, so that two workspaces
/// which overlap at their ends are found too.
template <class Body>
void each_word(const Running& work, const Body& body) {
  const uint64_t words = work.algorithm.workspace / sizeof(uint64_t), half = words / 2;
  auto* first = reinterpret_cast<uint64_t*>(work.workspace);
  const uint64_t all = work.workspace_bytes / sizeof(uint64_t);
  for (uint64_t i = 0; i < half; ++i) body(first[i]);
  for (uint64_t i = 0; i < words - half; ++i) body(first[all - 1 - i]);
}

void fill_workspace(void* state) {
  static std::atomic<uint32_t> fills{0};
  Running& work = **static_cast<std::shared_ptr<Running>*>(state);
  work.stamp = 0;
  if (const Problem problem = check_workspace(work)) return work.driver->fault(problem->c_str());
  // Not a number in any of the types, and another one each time.
  const uint32_t count = ++fills;
  work.stamp = 0xffff0001ffff0001ull | (count & 0x7fffull) << 1 | (count & 0x3fff8000ull) << 18;
  each_word(work, [&](uint64_t& word) { word = work.stamp; });
}

Problem check_stamp(const Running& work) {
  bool changed = false;
  each_word(work, [&](const uint64_t& word) { changed = changed || word != work.stamp; });
  if (!changed) return std::nullopt;
  return message("somebody wrote to the workspace ", static_cast<void*>(work.workspace),
                 " while it was in use");
}

// ---- the operands -------------------------------------------------------------------------------

bool is_read(const Running& work, int operand) { return operand != kC || work.beta != 0; }

Problem find_members(const Running& work, std::vector<Member>& members) {
  const auto batch = static_cast<uint64_t>(work.call.batch());
  members.assign(batch, Member{});
  for (int i = 0; i < kOperands; ++i) {
    if (!is_read(work, i)) continue;
    const MatrixLayout& layout = work.call.layouts[i];
    const auto* base = static_cast<const char*>(work.addresses[i]);
    if (layout.pointers &&
        (!divides(sizeof(void*), base) || !work.driver->holds(base, batch * sizeof(void*)))) {
      return message(kOperandNames[i], "'s table of ", batch, " pointers is in no allocation, or misaligned");
    }
    for (uint64_t member = 0; member < batch; ++member) {
      const int64_t offset =
          static_cast<int64_t>(member) * layout.stride * static_cast<int64_t>(element_bytes(layout.type));
      members[member].addresses[i] =
          layout.pointers ? reinterpret_cast<const void* const*>(base)[member] : base + offset;
    }
  }
  return std::nullopt;
}

Problem check_alignment(const Running& work, int operand, uint64_t member, const void* address) {
  const uint64_t element = element_bytes(work.call.layouts[operand].type);
  const uint64_t promised = std::max(uint64_t{1} << work.algorithm.alignment_log2[operand], element);
  if (!divides(promised, address)) {
    return message(kOperandNames[operand], " of member ", member, " is at ", address,
                   ", and its alignment was promised to be ", promised);
  }
  return std::nullopt;
}

Range range_of(const void* memory, uint64_t bytes, bool written, std::string name) {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  return {begin, begin + bytes, written, std::move(name)};
}

/// C may be D itself.
bool is_in_place(const Running& work, const Member& member) {
  const MatrixLayout& c = work.call.layouts[kC];
  const MatrixLayout& d = work.call.layouts[kD];
  return member.addresses[kC] == member.addresses[kD] && c.ld == d.ld && c.row_major == d.row_major;
}

Problem check_members(const Running& work, const std::vector<Member>& members, std::vector<Range>& ranges) {
  for (uint64_t member = 0; member < members.size(); ++member) {
    for (int i = 0; i < kOperands; ++i) {
      if (!is_read(work, i)) continue;
      const void* address = members[member].addresses[i];
      const uint64_t bytes = extent_bytes(work.call.layouts[i]);
      if (!address || !work.driver->holds(address, bytes)) {
        return message(kOperandNames[i], " of member ", member, ", ", bytes, " bytes at ", address,
                       ", is in no allocation");
      }
      if (Problem problem = check_alignment(work, i, member, address)) return problem;
      if (i == kC && is_in_place(work, members[member])) continue;
      ranges.push_back(
          range_of(address, bytes, i == kD, kOperandNames[i] + (" of member " + std::to_string(member))));
    }
  }
  return std::nullopt;
}

/// Whole extents: outputs that lie between each other's rows count as overlapping.
Problem check_overlap(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const Range* furthest = nullptr;
  const Range* written = nullptr;
  for (const Range& range : ranges) {
    const Range* other = range.written ? furthest : written;
    if (other && range.begin < other->end) return message(range.name, " overlaps ", other->name);
    if (!furthest || range.end > furthest->end) furthest = &range;
    if (range.written && (!written || range.end > written->end)) written = &range;
  }
  return std::nullopt;
}

// ---- the product --------------------------------------------------------------------------------

Problem run(const Running& work) {
  if (Problem problem = check_workspace(work)) return problem;
  if (Problem problem = check_stamp(work)) return problem;
  std::vector<Member> members;
  if (Problem problem = find_members(work, members)) return problem;
  std::vector<Range> ranges;
  if (Problem problem = check_members(work, members, ranges)) return problem;
  if (work.algorithm.workspace > 0) {
    ranges.push_back(range_of(work.workspace, work.workspace_bytes, true, "the workspace"));
  }
  for (int i = 0; i < kOperands && work.call.mode() == kPointers; ++i) {
    if (!is_read(work, i)) continue;
    ranges.push_back(range_of(work.addresses[i], members.size() * sizeof(void*), false,
                              kOperandNames[i] + std::string("'s table of pointers")));
  }
  if (Problem problem = check_overlap(std::move(ranges))) return problem;

  const uint64_t before = State::get().count_product();
  const int rotation = work.algorithm.reduces_in_place ? static_cast<int>(before % 3) : -1;
  const bool tf32 = work.call.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  for (const Member& member : members) {
    const auto& [a, b, c, d] = member.addresses;
    multiply({work.call.layouts, a, b, c, const_cast<void*>(d), work.alpha, work.beta, tf32, rotation});
  }
  return std::nullopt;
}

void run_product(void* state) {
  const Running& work = **static_cast<std::shared_ptr<Running>*>(state);
  if (work.stamp == 0) return;
  if (const Problem problem = run(work)) work.driver->fault(problem->c_str());
}

void release(void* state) { delete static_cast<std::shared_ptr<Running>*>(state); }

template <class Function>
bool fill(void* library, const char* name, Function& function) {
  void* found = library ? dlsym(library, name) : nullptr;
  if (!found) found = dlsym(RTLD_DEFAULT, name);
  function = reinterpret_cast<Function>(found);
  return found != nullptr;
}

}  // namespace

const Driver* Driver::find() {
  static std::mutex mutex;
  static Driver driver;
  static bool found = false;
  const std::lock_guard<std::mutex> lock(mutex);
  if (found) return &driver;
  void* library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
  found = fill(library, "software_cuda_enqueue", driver.enqueue) &&
          fill(library, "software_cuda_holds", driver.holds) &&
          fill(library, "software_cuda_fault", driver.fault);
  if (library && !found) dlclose(library);  // else it stays as long as it may be called
  return found ? &driver : nullptr;
}

CUresult enqueue(const MatmulWork& work, CUstream stream) {
  const auto running = std::make_shared<Running>(work);
  for (auto* piece : {&fill_workspace, &run_product}) {
    const CUresult result =
        work.driver->enqueue(stream, piece, new std::shared_ptr<Running>(running), &release);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace minuet::software
