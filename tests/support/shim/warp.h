// CUDA's warp intrinsics over shim::warp_meet. Part of device.h.
#pragma once

#include "tests/support/shim/device.h"

namespace minuet::shim {

template <class T>
struct WarpValue {
  T value, result;
  unsigned source;  // lane
};

/// result = Fold over the values of all lanes in the mask.
template <class T, class Fold>
T warp_reduce(unsigned mask, T value) {
  WarpValue<T> mine{value, value, 0};
  warp_meet(
      mask, false,
      [](void* const* lanes) {
        bool first = true;
        T all{};
        for (int i = 0; i < 32; ++i) {
          if (lanes[i] == nullptr) continue;
          const T next = static_cast<WarpValue<T>*>(lanes[i])->value;
          all = first ? next : Fold{}(all, next);
          first = false;
        }
        for (int i = 0; i < 32; ++i) {
          if (lanes[i] != nullptr) static_cast<WarpValue<T>*>(lanes[i])->result = all;
        }
      },
      &mine);
  return mine.result;
}

/// result = the value of lane `source`, which must take part; its own where that is no lane of its segment.
template <class T>
T warp_shuffle(unsigned mask, T value, unsigned source) {
  WarpValue<T> mine{value, value, source};
  warp_meet(
      mask, false,
      [](void* const* lanes) {
        for (int i = 0; i < 32; ++i) {
          if (lanes[i] == nullptr) continue;
          auto* lane = static_cast<WarpValue<T>*>(lanes[i]);
          if (lanes[lane->source] == nullptr) fail("a shuffle reads a lane that takes no part in it");
          lane->result = static_cast<WarpValue<T>*>(lanes[lane->source])->value;
        }
      },
      &mine);
  return mine.result;
}

/// The lanes that have the same value.
template <class T>
unsigned warp_match(unsigned mask, T value) {
  struct Lane {
    T value;
    unsigned same;
  } mine{value, 0};
  warp_meet(
      mask, false,
      [](void* const* lanes) {
        for (int i = 0; i < 32; ++i) {
          if (lanes[i] == nullptr) continue;
          auto* lane = static_cast<Lane*>(lanes[i]);
          for (int j = 0; j < 32; ++j) {
            if (lanes[j] != nullptr && static_cast<Lane*>(lanes[j])->value == lane->value)
              lane->same |= 1u << j;
          }
        }
      },
      &mine);
  return mine.same;
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Least {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Greatest {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct And {
  unsigned operator()(unsigned a, unsigned b) const { return a & b; }
};
struct Or {
  unsigned operator()(unsigned a, unsigned b) const { return a | b; }
};
struct Xor {
  unsigned operator()(unsigned a, unsigned b) const { return a ^ b; }
};

inline unsigned warp_lane() { return threadIdx.x & 31u; }

}  // namespace minuet::shim

inline void __syncwarp(unsigned mask = ~0u) {
  int nothing = 0;
  minuet::shim::warp_meet(
      mask, false, [](void* const*) {}, &nothing);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const unsigned w = static_cast<unsigned>(width), own = minuet::shim::warp_lane();
  return minuet::shim::warp_shuffle(mask, value, (own & ~(w - 1)) | (static_cast<unsigned>(lane) & (w - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const unsigned w = static_cast<unsigned>(width), own = minuet::shim::warp_lane();
  const unsigned source = own ^ static_cast<unsigned>(lanes);
  // Earlier segments may be read, later ones not.
  return minuet::shim::warp_shuffle(mask, value, source < (own & ~(w - 1)) + w ? source : own);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  const unsigned own = minuet::shim::warp_lane(), place = own & (static_cast<unsigned>(width) - 1);
  return minuet::shim::warp_shuffle(mask, value, place >= distance ? own - distance : own);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  const unsigned w = static_cast<unsigned>(width), own = minuet::shim::warp_lane(), place = own & (w - 1);
  return minuet::shim::warp_shuffle(mask, value, distance < w - place ? own + distance : own);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const unsigned bit = predicate != 0 ? 1u << minuet::shim::warp_lane() : 0u;
  return minuet::shim::warp_reduce<unsigned, minuet::shim::Or>(mask, bit);
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  return minuet::shim::warp_match(mask, value);
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate == 0) == 0; }

template <class T>
T __reduce_add_sync(unsigned mask, T value) {
  return minuet::shim::warp_reduce<T, minuet::shim::Add>(mask, value);
}
template <class T>
T __reduce_min_sync(unsigned mask, T value) {
  return minuet::shim::warp_reduce<T, minuet::shim::Least>(mask, value);
}
template <class T>
T __reduce_max_sync(unsigned mask, T value) {
  return minuet::shim::warp_reduce<T, minuet::shim::Greatest>(mask, value);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
  return minuet::shim::warp_reduce<unsigned, minuet::shim::Or>(mask, value);
}
