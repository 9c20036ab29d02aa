#include "tests/support/software_cuda/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "tests/support/shim/memory_access.h"

namespace minuet::software_cuda {
namespace {

constexpr std::size_t kPage = 4096, kLargePage = 2 << 20, kAlignment = 256;
constexpr std::size_t kQuarantine = 512;
constexpr std::size_t kCopied = 64 << 10;
constexpr unsigned char kGuard = 0xa5;

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

std::string text(const void* memory, const Memory::Allocation& allocation) {
  char line[96];
  std::snprintf(line, sizeof line, "the allocation of %zu bytes at %p", allocation.bytes, memory);
  return line;
}

/// Whether nobody has written there. Guards are poison for all but this.
[[gnu::no_sanitize_address]] bool is_guard(const char* begin, const char* end) {
  unsigned char wrong = 0;
  for (; begin != end; ++begin) wrong |= static_cast<unsigned char>(*begin) ^ kGuard;
  return wrong == 0;
}

/// `bytes` of address space between two pages that are nobody's; large ones begin on a large page. Null where
/// there is none.
char* reserve(std::size_t bytes) {
  const std::size_t alignment = bytes < kLargePage ? kPage : kLargePage, all = bytes + kPage + alignment;
  void* const base = ::mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  const std::uintptr_t pages = round_up(begin + kPage, alignment), end = pages + bytes + kPage;
  if (pages - kPage > begin) ::munmap(base, pages - kPage - begin);
  if (begin + all > end) ::munmap(reinterpret_cast<void*>(end), begin + all - end);
  return reinterpret_cast<char*>(pages);
}

}  // namespace

void poison(void* memory, std::size_t bytes) {
  char* const target = static_cast<char*>(memory);
  std::size_t filled = std::min(bytes, sizeof kPoison);
  std::memcpy(target, &kPoison, filled);
  // Doubling copies stay a multiple of the word apart; past what a cache holds, they are of as much.
  for (std::size_t next = 0; filled < bytes; filled += next) {
    next = std::min({filled, kCopied, bytes - filled});
    std::memcpy(target + filled, target, next);
  }
}

void* Memory::allocate(std::size_t bytes, const void* owner) {
  const std::size_t inside = round_up(round_up(bytes, kAlignment), kPage);
  if (inside > limit || used_ + inside > limit) return nullptr;
  char* const pages = reserve(inside);
  if (!pages) return nullptr;
  ::mprotect(pages, inside, PROT_READ | PROT_WRITE);
  ::madvise(pages, inside, MADV_HUGEPAGE);  // opened and closed by the large page
  char* const memory = pages + inside - round_up(bytes, kAlignment);
  poison(memory, bytes);
  std::memset(pages, kGuard, static_cast<std::size_t>(memory - pages));
  std::memset(memory + bytes, kGuard, static_cast<std::size_t>(pages + inside - memory) - bytes);
  forbid_access(pages, static_cast<std::size_t>(memory - pages));
  forbid_access(memory + bytes, static_cast<std::size_t>(pages + inside - memory) - bytes);
  ::mprotect(pages, inside, PROT_NONE);
  allocations_[memory] = {bytes, pages, inside, owner};
  used_ += inside;
  return memory;
}

void* Memory::allocate_pinned(std::size_t bytes, const void* owner) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kPage, bytes) != 0) return nullptr;
  poison(memory, bytes);
  allocations_[static_cast<char*>(memory)] = {bytes, nullptr, 0, owner};
  return memory;
}

std::string Memory::check(const char* memory, const Allocation& allocation) {
  if (!allocation.pages) return {};
  const bool before = is_guard(allocation.pages, memory);
  const bool after = is_guard(memory + allocation.bytes, allocation.pages + allocation.page_bytes);
  if (before && after) return {};
  return text(memory, allocation) + " was written " + (before ? "past its end" : "before its start");
}

std::string Memory::check() {
  for (const auto& [memory, allocation] : allocations_) {
    if (!allocation.open) continue;
    if (std::string wrong = check(memory, allocation); !wrong.empty()) return wrong;
  }
  return {};
}

std::string Memory::release(void* memory, bool pinned, bool& known) {
  const auto found = allocations_.find(static_cast<char*>(memory));
  known = found != allocations_.end() && (found->second.pages == nullptr) == pinned;
  if (!known) return {};
  std::string wrong;
  if (pinned) {
    std::free(memory);
  } else {
    set_open(found->second, true);
    wrong = check(found->first, found->second);
    quarantine(found->second);
  }
  allocations_.erase(found);
  return wrong;
}

void Memory::quarantine(const Allocation& allocation) {
  allow_access(allocation.pages, allocation.page_bytes);
  ::madvise(allocation.pages, allocation.page_bytes, MADV_DONTNEED);
  ::mprotect(allocation.pages, allocation.page_bytes, PROT_NONE);
  quarantine_.emplace_back(allocation.pages - kPage, allocation.page_bytes + 2 * kPage);
  if (quarantine_.size() > kQuarantine) {
    ::munmap(quarantine_.front().first, quarantine_.front().second);
    quarantine_.pop_front();
  }
  used_ -= allocation.page_bytes;
}

void Memory::release_all(const void* owner) {
  std::vector<std::pair<char*, bool>> owned;
  for (const auto& [memory, allocation] : allocations_) {
    if (allocation.owner == owner) owned.emplace_back(memory, allocation.pages == nullptr);
  }
  bool known = false;
  for (const auto& [memory, pinned] : owned) release(memory, pinned, known);
}

const Memory::Allocation* Memory::find(const void* memory, std::size_t bytes) const {
  char* const address = static_cast<char*>(const_cast<void*>(memory));
  auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  --next;
  const auto offset = static_cast<std::size_t>(address - next->first);
  const bool inside = offset <= next->second.bytes && bytes <= next->second.bytes - offset;
  return inside ? &next->second : nullptr;
}

bool Memory::is_pinned(const void* memory) const {
  const Allocation* const allocation = find(memory, 1);
  return allocation && !allocation->pages;
}

void Memory::set_open(Allocation& allocation, bool open) {
  if (!allocation.pages || allocation.open == open) return;
  ::mprotect(allocation.pages, allocation.page_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  allocation.open = open;
}

void Memory::open() {
  for (auto& [memory, allocation] : allocations_) set_open(allocation, true);
}

void Memory::open(const void* memory) {
  // That before it would be another one's, where there is none at `memory`: opened for nothing.
  const auto next = allocations_.upper_bound(static_cast<char*>(const_cast<void*>(memory)));
  if (next != allocations_.begin()) set_open(std::prev(next)->second, true);
}

void Memory::close() {
  for (auto& [memory, allocation] : allocations_) set_open(allocation, false);
}

}  // namespace minuet::software_cuda
