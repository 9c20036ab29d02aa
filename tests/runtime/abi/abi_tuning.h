// Options of a tuning for tests of the ABI's structs.
#pragma once

#include <string>
#include <vector>

#include "include/minuet/tuning.h"

namespace minuet::abi {

/// Small enough to be measured in no time; the call is stopped at once.
struct TinyTuning {
  minuet_tuning_cloud cloud;
  minuet_tuning_options options = MINUET_TUNING_OPTIONS_INIT;

  TinyTuning(const std::vector<int32_t>& coordinates, const std::string& folder)
      : cloud{coordinates.data(), static_cast<int64_t>(coordinates.size() / 4)} {
    options.clouds = &cloud;
    options.cloud_count = 1;
    options.repeats = 3;
    options.directory = folder.c_str();
    options.cancelled = [](void*) { return int32_t{1}; };
  }
};

}  // namespace minuet::abi
