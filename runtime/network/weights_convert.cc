#include "runtime/network/weights_convert.h"

#include "runtime/network/weights_check.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {

llvm::Expected<std::map<std::string, FileTensor>> tensors_of(const WeightsFile& file,
                                                             const Program& program) {
  std::map<std::string, FileTensor> tensors;
  for (const ProgramLayer& layer : program.layers) {
    for (const ParameterName& parameter : parameter_names(layer)) {
      FileTensor& tensor = tensors[parameter.name];
      tensor.shape = parameter.shape;
      if (parameter.role == ParameterRole::Weight) {
        MINUET_ASSIGN(tensor.values, file.read_weight(parameter.name, *convolution_of(layer)));
      } else {
        MINUET_ASSIGN(tensor.values, file.read_vector(parameter.name, parameter.shape.front()));
      }
    }
  }
  return tensors;
}

}  // namespace minuet
