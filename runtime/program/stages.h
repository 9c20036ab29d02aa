// Divides a program into stages. A stage has the levels (coordinate sets) that derive from one root, which is
// level 0, or a level that a layer makes of points or features in each run (LevelSpec::made_by). The
// coordinates of such a root are known only during a run, so the levels and kernel maps of its stage can be
// made only then.
//
// Each stage is a program of its own, whose level 0 is the root. Layers that lead from one stage to another
// belong to no stage: the layer that makes a root, and those that bring tensors onto it. They run before the
// stage that they lead to. All functions are pure.
#pragma once

#include <vector>

#include "runtime/program/program.h"

namespace minuet {

struct ProgramStage {
  // The first inputs and the last outputs are the whole program's that lie on levels of the stage. The other
  // inputs are written, and the other outputs are read, by layers between the stages.
  Program program;
  // Hold the number in the whole program of each level, layer and tensor of `program`.
  std::vector<i32> levels, layers, tensors;
  // Lists the layers of the whole program that lead to this stage. The one that makes the root comes first.
  std::vector<i32> leading;
  // Hold the number of the whole program's input or output that an input or output of `program` is, or -1.
  std::vector<i32> inputs, outputs;

  /// Returns the level that is the root, as a level of the whole program.
  i32 root() const { return levels.front(); }
};

/// Returns true if the program has more than one stage.
bool has_stages(const Program& program);

/// Returns the level from whose coordinates a level derives.
i32 root_of(const Program& program, i32 level);

/// Returns, for each level, the number of its stage in the order in which stages run. Stage 0 runs first. The
/// stage of a level of points is the last one, because layers give features back to points.
std::vector<i32> stage_numbers(const Program& program);

/// Returns the stages of a program that has several, in the order in which they run.
std::vector<ProgramStage> stages_of(const Program& program);

}  // namespace minuet
