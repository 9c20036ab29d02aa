// Divides one block of device memory into parts that start on 256-byte boundaries.
#pragma once

#include <algorithm>
#include <memory>

#include "runtime/engine/device.h"

#if defined(__SANITIZE_ADDRESS__)
#define MINUET_GUARD_PARTS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MINUET_GUARD_PARTS 1
#endif
#endif
#ifdef MINUET_GUARD_PARTS
#include <sanitizer/asan_interface.h>
#endif

namespace minuet {

constexpr i64 kArenaAlignment = 256;

/// Checks a block of the caller's memory, of which `needed` bytes are used. Messages call it `name`. Returns
/// InvalidArgument if it is null or not aligned, and ResourceExhausted if it is too small.
llvm::Error check_block(const char* name, const void* memory, i64 bytes, i64 needed);

/// Says whether parts of a block that are never in use at the same time share memory. Under AddressSanitizer
/// they do not, because the poisoned gap behind one part would lie inside another part.
#ifdef MINUET_GUARD_PARTS
constexpr bool kSharesMemory = false;
#else
constexpr bool kSharesMemory = true;
#endif

/// Removes AddressSanitizer's poison from a whole block, so that its next owner can divide the block again.
inline void unpoison_parts(void* block, i64 bytes) {
#ifdef MINUET_GUARD_PARTS
  if (block) ASAN_UNPOISON_MEMORY_REGION(block, static_cast<std::size_t>(bytes));
#else
  static_cast<void>(block), static_cast<void>(bytes);
#endif
}

/// Computes the offsets of parts inside one block. Under AddressSanitizer, a poisoned gap follows each part,
/// so that an overrun is reported instead of silently corrupting the next part.
class ArenaLayout {
 public:
  /// Adds a part of `bytes` bytes and returns its offset. If the block is already allocated, `base` is its
  /// address, and AddressSanitizer is told that the part is in use. If `idle` is false, the gap behind the
  /// part is not poisoned, because work in progress may still write there.
  i64 add(i64 bytes, char* base = nullptr, bool idle = true) {
    const i64 offset = bytes_;
    bytes_ += (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
#ifdef MINUET_GUARD_PARTS
    // An empty part has no guard, so that a block without parts is empty in these builds too.
    if (bytes > 0) bytes_ += kArenaAlignment;
    if (base) {
      ASAN_UNPOISON_MEMORY_REGION(base + offset, static_cast<std::size_t>(bytes));
      if (idle) {
        ASAN_POISON_MEMORY_REGION(base + offset + bytes, static_cast<std::size_t>(bytes_ - offset - bytes));
      }
    }
#else
    static_cast<void>(base), static_cast<void>(idle);
#endif
    return offset;
  }
  i64 bytes() const { return bytes_; }
  void move_to(i64 offset) { bytes_ = offset; }

 private:
  i64 bytes_ = 0;
};

/// Hands out parts of the block at `base`. If `base` is null, this class returns null pointers and only
/// measures the size of the block.
class Placement {
 public:
  explicit Placement(char* base, bool idle = true) : base_(base), idle_(idle) {}
  /// Hands out distinct addresses for memory that does not exist yet, from `offset` bytes on. Nothing may
  /// access them.
  static Placement of_stand_ins(i64 offset) {
    Placement result(reinterpret_cast<char*>(kArenaAlignment + offset));
    result.is_real_ = false;
    return result;
  }
  template <class T>
  T* take(i64 count) {
    const i64 offset = layout_.add(count * static_cast<i64>(sizeof(T)), is_real_ ? base_ : nullptr, idle_);
    return base_ ? reinterpret_cast<T*>(base_ + offset) : nullptr;
  }
  i64 bytes() const { return layout_.bytes(); }
  void skip(i64 bytes) { layout_.move_to(layout_.bytes() + bytes); }
  /// Returns a Placement for parts that begin `offset` bytes after the end of the parts handed out so far.
  Placement from(i64 offset) const {
    Placement result(base_ ? base_ + layout_.bytes() + offset : nullptr, idle_);
    result.is_real_ = is_real_;
    return result;
  }

 private:
  char* base_;
  bool idle_;
  bool is_real_ = true;
  ArenaLayout layout_;
};

/// Allocates a block for the parts that place(Placement&) takes. The first call of `place` measures the size
/// of the block, and the second one places the parts.
template <class Place>
llvm::Expected<DeviceMemory> allocate_parts(const std::shared_ptr<MemorySource>& source, const Place& place) {
  Placement measured(nullptr);
  place(measured);
  MINUET_ASSIGN(DeviceMemory memory, DeviceMemory::create(source, measured.bytes()));
  Placement parts(memory.data(), source->returns_idle_memory());
  place(parts);
  return memory;
}

/// Returns how much to allocate beyond `amount`, so that a later, slightly larger cloud fits too.
constexpr i64 slack_of(i64 amount) { return amount / 8; }

/// Allocates a replacement for a block that has become too small. The new block has `bytes` bytes, and
/// `slack` more if that much memory is available.
llvm::Expected<DeviceMemory> allocate_grown(const std::shared_ptr<MemorySource>& source, i64 bytes,
                                            i64 slack);

/// Holds the device memory of an execution (runtime/execution). This is either the caller's workspace, which
/// never grows, or memory that the arena allocates and replaces by a larger block when it needs one.
class Arena {
 public:
  explicit Arena(std::shared_ptr<MemorySource> source) : source_(std::move(source)) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  /// Replaces the memory by a workspace of the caller, and from then on allocates none. If `workspace` is
  /// null, the caller has not given a workspace yet.
  void use_workspace(void* workspace, i64 bytes);
  /// Returns true if the memory is the caller's, given or not given yet.
  bool is_callers() const { return callers_; }
  /// Provides at least `bytes` bytes. If an existing block is too small, its contents are lost, and the new
  /// block has `slack` bytes more if they are available. After a failure, the arena has no memory, except
  /// that it keeps a caller's workspace.
  llvm::Error reserve(i64 bytes, i64 slack);
  /// Moves the memory out of the arena, so that work which still uses it can finish, and leaves the arena
  /// empty. Do not call it if the memory is a caller's workspace.
  DeviceMemory retire();
  char* data() const { return data_; }
  i64 bytes() const { return bytes_; }
  /// Returns the number of allocations since reset_growths().
  i64 growths() const { return growths_; }
  void reset_growths() { growths_ = 0; }

 private:
  std::shared_ptr<MemorySource> source_;
  DeviceMemory memory_;
  char* data_ = nullptr;
  i64 bytes_ = 0;
  bool callers_ = false;
  i64 growths_ = 0;
};

}  // namespace minuet
