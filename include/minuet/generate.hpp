// Wraps generate.h for C++, as minuet.hpp wraps minuet.h.
#ifndef MINUET_GENERATE_HPP_
#define MINUET_GENERATE_HPP_

#include "minuet/generate.h"
#include "minuet/minuet.hpp"

namespace minuet {

/// Creates the coordinate set that a generative layer makes from `parent` (minuet_coordinates_generate).
inline Coordinates generate(const Coordinates& parent, const minuet_generate_options& options,
                            void* stream = nullptr) {
  minuet_coordinates* set = nullptr;
  check(minuet_coordinates_generate(parent.get(), &options, stream, &set));
  return Coordinates::take(set);
}

}  // namespace minuet

#endif  // MINUET_GENERATE_HPP_
