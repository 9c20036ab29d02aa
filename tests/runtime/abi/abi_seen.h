// What can be seen of objects that the library made, to compare two of them.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/support/network_abi.h"

namespace minuet::abi {

/// The status of a call, and all that can be seen of what it made.
struct Seen {
  minuet_status status = MINUET_OK;
  std::vector<std::string> facts;
  bool operator==(const Seen&) const = default;

  template <class T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    facts.emplace_back(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  template <class T>
  void add(const std::vector<T>& values) {
    facts.emplace_back(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void add_text(const char* text) { facts.emplace_back(text); }
};

/// The status, with its message where the call failed.
inline Seen seen_of(minuet_status status) {
  Seen seen{status, {}};
  if (status != MINUET_OK) seen.add_text(last_error().c_str());
  return seen;
}

template <class Info>
Info asked(const std::function<minuet_status(Info*)>& query) {
  Info info;
  std::memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  check(query(&info));
  return info;
}

inline void add_plan(Seen& seen, minuet_plan* plan) {
  auto info = asked<minuet_plan_info>([&](auto* answer) { return minuet_plan_query(plan, answer); });
  seen.add_text(info.name);
  info.name = nullptr;
  seen.add(info);
  for (int32_t i = 0; i < info.parameter_tensors; ++i) {
    auto parameter = asked<minuet_parameter_info>(
        [&](auto* answer) { return minuet_plan_query_parameter(plan, i, answer); });
    seen.add_text(parameter.name);
    parameter.name = nullptr;
    seen.add(parameter);
  }
}

inline void add_execution(Seen& seen, minuet_plan* plan, minuet_execution* execution) {
  const minuet_plan_info info = info_of(plan);
  for (int32_t i = 0; i < info.levels; ++i) {
    seen.add(asked<minuet_level_info>(
        [&](auto* answer) { return minuet_execution_query_level(execution, i, answer); }));
  }
  for (int32_t i = 0; i < info.layers; ++i) {
    auto layer = asked<minuet_layer_info>(
        [&](auto* answer) { return minuet_execution_query_layer(execution, i, answer); });
    seen.add_text(layer.name), seen.add_text(layer.kernel);
    layer.name = layer.kernel = nullptr;
    seen.add(layer);
  }
  seen.add(counters_of(execution));
}

}  // namespace minuet::abi
