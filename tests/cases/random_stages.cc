#include "tests/cases/random_stages.h"

#include <algorithm>
#include <charconv>
#include <regex>

namespace minuet {
namespace {

using oracle::Axes;
using Op = oracle::NetworkLayer::Op;

std::string number(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

std::string list(int ndim, const std::string& value) {
  std::string text;
  for (int a = 0; a < ndim; ++a) text += (a == 0 ? "[" : ", ") + value;
  return text + "]";
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

/// The layers of a chain, whose names begin with `prefix`, and whose widths begin at `width`.
std::string layers_of(const NetworkCase& network, const std::string& prefix, size_t width) {
  std::string text = network.json(/*names_all=*/true);
  text = text.substr(text.find("\"layers\": [") + std::string("\"layers\": [").size());
  text = text.substr(0, text.rfind(']'));
  text = std::regex_replace(text, std::regex("\"(result|layer)([0-9]+)\""), "\"" + prefix + "$1$2\"");
  std::string moved;
  const std::regex widths("width\": ([0-9]+)");
  size_t done = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), widths), end; at != end; ++at) {
    const auto from = static_cast<size_t>(at->position(1));
    moved += text.substr(done, from - done) + std::to_string(std::stoul(at->str(1)) + width);
    done = from + static_cast<size_t>(at->length(1));
  }
  return moved + text.substr(done);
}

std::string result_of(const NetworkCase& network, const std::string& prefix) {
  return "\"" + prefix + "result" + std::to_string(network.layers.size() - 1) + "\"";
}

}  // namespace

std::vector<Axes> strides_of(const NetworkCase& network) {
  std::vector<Axes> strides;
  for (const oracle::NetworkLayer& layer : network.layers) {
    Axes stride = strides.empty() ? Axes{1, 1, 1, 1} : strides.back();
    const bool goes_back = layer.op == Op::Up || layer.op == Op::ChannelToSpace;
    for (size_t a = 0; a < stride.size(); ++a)
      stride[a] = goes_back ? strides[static_cast<size_t>(layer.skip)][a] : stride[a] * layer.stride[a];
    strides.push_back(stride);
  }
  return strides;
}

std::string json_of(const StagedCase& test) {
  const NetworkCase &first = test.first, &second = test.second;
  const bool is_prune = test.child_count() == 1;
  std::string stride;
  for (int a = 0; a < first.ndim; ++a)
    stride += (a == 0 ? "" : ", ") + std::to_string(test.children[static_cast<size_t>(a)]);
  const std::string scores = R"({"op": "linear", "name": "scores", "out_channels": )" +
                             std::to_string(test.child_count()) + R"(, "output": "scores"})";
  const std::string rule = test.maker == Maker::Best    ? R"(, "top_k": )" + std::to_string(test.top_k)
                           : test.maker == Maker::Above ? R"(, "threshold": )" + number(test.threshold)
                                                        : "";
  std::string maker = R"({"op": ")" + std::string(is_prune ? "prune" : "subdivide") + R"(", "input": )" +
                      result_of(first, "a") + R"(, "by": ")" +
                      (test.maker == Maker::Mask ? "keep" : "scores") + "\"" + rule +
                      (is_prune ? ""
                                : R"(, "stride": [)" + stride + R"(], "features": ")" +
                                      (test.divides_channels ? "channel_to_space" : "copy") + "\"") +
                      "}";
  if (test.maker == Maker::Cells) {
    maker = R"({"op": "to_dense", "input": )" + result_of(first, "a") +
            R"(, "output": "dense"}, {"op": "from_dense", "input": "dense", "new_level": true})";
  }
  std::string layers = layers_of(first, "a", 0) + ",\n" + (test.maker == Maker::Cells ? "" : scores + ",\n") +
                       maker + ",\n" + layers_of(second, "b", 2 * first.layers.size());
  std::string inputs = R"("in_channels": )" + std::to_string(first.in_channels);
  std::string outputs =
      (test.maker == Maker::Cells ? result_of(first, "a") : R"("scores")") + ", " + result_of(second, "b");
  if (test.maker == Maker::Mask) {
    inputs = R"("inputs": [{"name": "input", "channels": )" + std::to_string(first.in_channels) +
             R"(}, {"name": "keep", "type": "mask", "channels": )" + std::to_string(test.child_count()) +
             R"(, "level": )" + result_of(first, "a") + "}]";
  }
  if (test.maker == Maker::Cells) {
    inputs += R"(, "shape": [)";
    for (int a = 0; a < first.ndim; ++a)
      inputs += (a == 0 ? "" : ", ") + std::to_string(test.shape[static_cast<size_t>(a)]);
    inputs += "]";
  }
  if (test.takes_points) {
    inputs = R"("inputs": [{"name": "points", "channels": )" +
             std::to_string(std::max(first.ndim, first.in_channels)) + "}]";
    layers = R"({"op": "voxelize", "voxel_size": )" + list(first.ndim, number(kStagedVoxelSize)) +
             R"(, "channels": )" + std::to_string(first.in_channels) + "},\n" + layers +
             R"(, {"op": "devoxelize", "blend": "corners", "output": "blended"})";
    outputs += R"(, "blended")";
  }
  const std::string widths =
      between(first.json(), "\"channels\": [", "]") + ", " + between(second.json(), "\"channels\": [", "]");
  return R"({"name": "random", "ndim": )" + std::to_string(first.ndim) + ", " + inputs +
         R"(, "channels": [)" + widths + R"(], "outputs": [)" + outputs + "],\n\"layers\": [" + layers + "]}";
}

StagedCase draw_first(DType dtype, Random& random) {
  StagedCase test;
  test.first = draw_network(dtype, random.next());
  test.maker = static_cast<Maker>(random.below(4));
  test.top_k = static_cast<int>(random.between(1, 30));
  if (test.maker == Maker::Cells) return test;
  test.takes_points = test.maker != Maker::Mask && random.below(3) == 0;
  test.is_wild = test.takes_points && random.below(2) == 0;
  const Axes stride = strides_of(test.first).back();
  for (size_t a = 0; a < static_cast<size_t>(test.first.ndim) && random.below(4) != 0; ++a)
    test.children[a] = stride[a] % 2 == 0 ? 2 : stride[a] % 3 == 0 ? 3 : 1;
  return test;
}

std::vector<StagedCase> simpler_cases(const StagedCase& test) {
  std::vector<StagedCase> cases;
  const auto add = [&](auto change) { change(cases.emplace_back(test)); };
  if (test.is_wild) add([](StagedCase& each) { each.is_wild = false; });
  if (test.takes_points) add([](StagedCase& each) { each.takes_points = each.is_wild = false; });
  if (test.maker != Maker::Above) add([](StagedCase& each) { each.maker = Maker::Above; });
  if (test.divides_channels) add([](StagedCase& each) { each.divides_channels = false; });
  for (const NetworkCase& first : simpler_networks(test.first)) {
    add([&](StagedCase& each) { each.first = first; });
  }
  for (const NetworkCase& second : simpler_networks(test.second)) {
    add([&](StagedCase& each) { each.second = second; });
  }
  for (size_t a = 0; a < 4; ++a) {
    if (test.children[a] > 1) add([&](StagedCase& each) { each.children[a] = 1; });
  }
  return cases;
}

std::string as_initializer(const StagedCase& test) {
  std::string text = "{.first = " + as_initializer(test.first) +
                     ", .second = " + as_initializer(test.second) +
                     ", .takes_points = " + (test.takes_points ? "true" : "false") +
                     ", .is_wild = " + (test.is_wild ? "true" : "false") + ", .children = {";
  for (const int each : test.children) text += std::to_string(each) + ", ";
  return text + "}, .divides_channels = " + (test.divides_channels ? "true" : "false") +
         ", .maker = " + std::to_string(static_cast<int>(test.maker)) +
         ", .top_k = " + std::to_string(test.top_k) + "}";
}

}  // namespace minuet
