#include "runtime/weights_convert.h"

#include "runtime/weights_check.h"

namespace minuet {

llvm::Expected<std::map<std::string, FileTensor>> tensors_of(const WeightsFile& file,
                                                             const NetworkProgram& program) {
  std::map<std::string, FileTensor> tensors;
  for (const ProgramLayer& layer : program.layers) {
    const ConvolutionProblem& problem = layer.problem;
    for (const ParameterName& parameter : parameter_names(layer)) {
      FileTensor& tensor = tensors[parameter.name];
      if (parameter.is_weight) {
        tensor.shape = {kernel_volume(problem), problem.in_channels, problem.out_channels};
        MINUET_ASSIGN(tensor.values, file.read_weight(parameter.name, problem));
      } else {
        tensor.shape = {problem.out_channels};
        MINUET_ASSIGN(tensor.values, file.read_vector(parameter.name, problem.out_channels));
      }
    }
  }
  return tensors;
}

}  // namespace minuet
