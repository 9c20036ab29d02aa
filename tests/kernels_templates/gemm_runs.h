// Runs the test kernels of gemm_kernels.h in the shim, whole or with a fault.
#pragma once

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>

#include "tests/kernels_templates/device/cluster_gemm.h"
#include "tests/kernels_templates/device/staged_gemm.h"
#include "tests/kernels_templates/gemm_problem.h"

namespace minuet {

/// How threads take turns, and how late copies are.
struct Turns {
  shim::Order order;
  u64 seed;
};
inline std::vector<Turns> all_turns() {
  std::vector<Turns> turns{{shim::Order::Ascending, 0}, {shim::Order::Descending, 0}};
  for (u64 seed = 0; seed < 10; ++seed) {
    turns.push_back({shim::Order::Shuffled, seed});
    if (seed > 0 && seed < 4) turns.push_back({static_cast<shim::Order>(seed % 2), seed});
  }
  return turns;
}
inline std::string text_of(const Turns& turns) {
  return "order " + std::to_string(static_cast<int>(turns.order)) + ", seed " + std::to_string(turns.seed);
}

template <class Spec>
std::vector<float> run_gemm(void (*kernel)(const GemmParams&), Spec spec, i32 cluster,
                            const GemmProblem& problem, const Turns& turns) {
  const i32 tiles = (problem.rows + gemm_tile_rows(spec) - 1) / gemm_tile_rows(spec);
  std::vector<float> out(problem.expected.size(), std::nanf(""));
  shim::launch(kernel,
               GemmParams{problem.a.data(), problem.b.data(), out.data(), problem.rows, problem.steps},
               {.blocks = tiles * cluster,
                .threads = gemm_threads(spec),
                .order = turns.order,
                .cluster = cluster,
                .shared_bytes = gemm_shared_bytes(spec),
                .seed = turns.seed});
  return out;
}
template <ClusterGemmSpec S>
std::vector<float> run_cluster_gemm(const GemmProblem& problem, const Turns& turns) {
  return run_gemm(&cluster_gemm<S>, S, S.cluster, problem, turns);
}
template <StagedGemmSpec S>
std::vector<float> run_staged_gemm(const GemmProblem& problem, const Turns& turns) {
  return run_gemm(&staged_gemm<S>, S, 1, problem, turns);
}

/// In how many of all_turns() the run throws or gives a wrong result. `message`: of the last that threw.
inline int times_found(const GemmProblem& problem, const std::function<std::vector<float>(const Turns&)>& run,
                       std::string* message = nullptr) {
  int found = 0;
  for (const Turns& turns : all_turns()) {
    try {
      found += worst_error(problem, run(turns)) > kGemmBound;
    } catch (const std::logic_error& error) {
      if (message != nullptr) *message = error.what();
      ++found;
    }
  }
  return found;
}

}  // namespace minuet
