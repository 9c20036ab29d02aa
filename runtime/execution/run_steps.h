// Declares the work of a run that no op of the program does. The passes of a training step have such work:
// batch norms over the rows of a batch, and the gradients of parameters (runtime/training).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/arena.h"
#include "runtime/engine/engine.h"

namespace minuet {

class Execution;

/// Holds the times of the layers of a run, and of the steps that RunSteps number (Execution::timed_step()).
struct RunTimes {
  std::vector<StageTimes> layers, steps;
};

/// Works on the tensors of one execution on a pyramid, which owns this object. The execution calls place()
/// when the addresses of the caller's memory have changed, then start(), and then before_layer() for each
/// layer in turn and once more behind the last one.
class RunSteps {
 public:
  virtual ~RunSteps() = default;
  /// Takes memory that is in use during a run from `parts`, and memory that outlives the run from `kept`.
  virtual void place(Placement& parts, Placement& kept) = 0;
  /// Enqueues the work that all layers need, such as that on parameters.
  virtual llvm::Error start() = 0;
  /// Enqueues the work that comes before a layer. `layer` is the number of layers after the last one.
  virtual llvm::Error before_layer(i32 layer) = 0;
  /// Returns pointers to the parameters of a layer, in the order of parameter_images().
  virtual llvm::ArrayRef<const void*> parameters(i32 layer) const = 0;
  /// Return the names that messages give to an input and to an output of the program.
  virtual std::string input_name(std::size_t number) const = 0;
  virtual std::string output_name(std::size_t number) const = 0;
};

/// Makes the RunSteps of an execution whose candidates are selected.
using MakeRunSteps = std::function<llvm::Expected<std::unique_ptr<RunSteps>>(Execution&)>;

}  // namespace minuet
