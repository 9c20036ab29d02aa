// One block of device memory, cut into parts that start on 256-byte boundaries.
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

/// Whether parts that are never in use together lie in the same memory: not where gaps are poison.
#ifdef MINUET_GUARD_PARTS
constexpr bool kSharesMemory = false;
#else
constexpr bool kSharesMemory = true;
#endif

/// A block is whole again, for whoever has it next.
inline void forget_parts(void* block, i64 bytes) {
#ifdef MINUET_GUARD_PARTS
  if (block) ASAN_UNPOISON_MEMORY_REGION(block, static_cast<std::size_t>(bytes));
#else
  static_cast<void>(block), static_cast<void>(bytes);
#endif
}

/// Offsets of parts inside one block. Under AddressSanitizer they lie apart, and between them is poison: a
/// part that is overrun would else be its neighbour's wrong numbers.
class ArenaLayout {
 public:
  /// Offset of a new part of `bytes` bytes. With a `base`, the part is in use from here on. What is still
  /// under way there may write where the new gaps are: they are poisoned only where the block is `idle`.
  i64 add(i64 bytes, char* base = nullptr, bool idle = true) {
    const i64 offset = bytes_;
    bytes_ += (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
#ifdef MINUET_GUARD_PARTS
    bytes_ += kArenaAlignment;
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

/// Hands out the parts of a block at `base`; with a null base it only measures.
class Placement {
 public:
  explicit Placement(char* base, bool idle = true) : base_(base), idle_(idle) {}
  template <class T>
  T* take(i64 count) {
    const i64 offset = layout_.add(count * static_cast<i64>(sizeof(T)), base_, idle_);
    return base_ ? reinterpret_cast<T*>(base_ + offset) : nullptr;
  }
  i64 bytes() const { return layout_.bytes(); }
  void skip(i64 bytes) { layout_.move_to(layout_.bytes() + bytes); }
  /// What these two take is never in use together: it begins at the same place.
  template <class First, class Second>
  void share(const First& first, const Second& second) {
    const i64 begin = layout_.bytes();
    first(*this);
    const i64 end = layout_.bytes();
    if (kSharesMemory) layout_.move_to(begin);
    second(*this);
    layout_.move_to(std::max(end, layout_.bytes()));
  }
  /// Of parts that begin `offset` behind those that are handed out.
  Placement from(i64 offset) const {
    return Placement(base_ ? base_ + layout_.bytes() + offset : nullptr, idle_);
  }

 private:
  char* base_;
  bool idle_;
  ArenaLayout layout_;
};

/// A block of its own for the parts that place(Placement&) takes: measured, then placed.
template <class Place>
llvm::Expected<DeviceMemory> allocate_parts(const std::shared_ptr<MemorySource>& source, const Place& place) {
  Placement measured(nullptr);
  place(measured);
  MINUET_ASSIGN(DeviceMemory memory, DeviceMemory::create(source, measured.bytes()));
  Placement parts(memory.data(), source->gives_idle());
  place(parts);
  return memory;
}

/// Room for a coordinate set's keys and their number.
inline Coords place_coords(Placement& parts, i64 capacity, i32 key_bits) {
  const KeyType key = key_type_of(key_bits);
  return {parts.take<char>(capacity * key_bytes(key)), parts.take<i32>(1), capacity, key};
}

/// An eighth, so that the next, slightly larger cloud fits.
constexpr i64 slack_of(i64 amount) { return amount / 8; }

/// For what has outgrown its last block: with slack where that is to be had, else just so much.
llvm::Expected<DeviceMemory> allocate_grown(const std::shared_ptr<MemorySource>& source, i64 bytes,
                                            i64 slack);

/// Device memory of an execution: the caller's, which never grows, or ours, which does.
class Arena {
 public:
  Arena(std::shared_ptr<MemorySource> source, void* workspace, i64 bytes);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  /// At least `bytes`. Growing loses the contents, and takes `slack` more where that is to be had; after a
  /// failure there is no memory at all, but for the caller's.
  llvm::Error reserve(i64 bytes, i64 slack);
  /// What is here, which goes on to be used; the arena begins anew. Not for the caller's.
  DeviceMemory retire();
  char* data() const { return data_; }
  i64 bytes() const { return bytes_; }
  /// Allocations since the last reset.
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
