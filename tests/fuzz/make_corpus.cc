// Writes the seeds of the fuzz targets, all of them synthetic. usage: make_corpus FOLDER
#include <lzf.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>

#include "codegen/bundle/bundle_writer.h"
#include "codegen/choose/ops/pointwise.h"
#include "codegen/choose/ops/pooling.h"
#include "codegen/choose/tuned_config.h"
#include "codegen/choose/tuning_entry.h"
#include "runtime/plan/plan_document.h"
#include "runtime/plan/serialized_plan.h"
#include "tests/codegen/bundle/bundle_fakes.h"
#include "tests/support/torch_writer.h"

namespace minuet {
namespace {

std::string small_manifest(const Entry& entry) {
  Entry stable = entry;
  stable.binary.log.clear();
  return write_manifest(stable);
}

/// What entry_fuzz and bundle_fuzz take for "a kernel".
std::string kernel_input(const std::string& manifest, const std::string& cubin) {
  const char size[2] = {static_cast<char>(manifest.size() & 0xff), static_cast<char>(manifest.size() >> 8)};
  return '\1' + std::string(size, 2) + manifest + cubin;
}

const std::string kMark = "\xef\xbb\xbf";
const std::string kLfsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:26d0\nsize 381\n";
const std::string kShardIndex =
    R"({"metadata":{},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})";
const std::string kTorchZip = std::string("PK\x03\x04\x14\0\0\0", 8) + "archive/data.pkl";

using Put = std::function<void(const std::string& name, const std::string& bytes)>;

void write_kernels(const Put& put) {
  const Entry entry = make_kernel("gather", "sm_90a", "nvrtc 13.0 1 2");
  Entry shared = make_kernel("scatter", "sm_80");
  CubinSketch sketch;
  sketch.sm = 80;
  sketch.shared_bytes = 4096;
  sketch.frame_bytes = 16;
  sketch.max_threads = {};
  shared.binary.cubin = make_cubin(sketch);
  for (const Entry& one : {entry, shared}) {
    const std::string name = one.binary.display_name;
    put("manifest/whole-" + name + ".bin", write_manifest(one));
    put("entry/whole-file-" + name + ".bin", '\0' + write_entry(one));
    put("entry/whole-kernel-" + name + ".bin", kernel_input(small_manifest(one), one.binary.cubin));
  }
  put("manifest/deep.bin", std::string(3000, '['));
  put("manifest/escapes.bin",
      R"({"lowered_names":{"a\u0000\ud83d\ude00":"b\""},"compile_ms":1e999,"registers":-1})");
  Entry same = make_kernel("gather", "sm_90a", kHost);  // the harness's own bundle is of this compiler
  put("bundle/whole-kernel.bin", kernel_input(small_manifest(same), same.binary.cubin));
  const std::string two = llvm::cantFail(make_bundle("sm_90a", make_kernels(2), "tuning"));
  const std::string none = llvm::cantFail(make_bundle("sm_120f", {}));
  put("bundle/whole-two.bin", '\0' + two);
  put("bundle/whole-two-sizes.bin", '\2' + two);
  put("bundle/whole-none.bin", '\2' + none);
  put("bundle/lfs.bin", '\0' + kLfsPointer);
  put("bundle/torch.bin", '\0' + kTorchZip + std::string(200, ' '));
  put("manifest/whole-mark.bin", kMark + write_manifest(entry));
}

TuningMeasurement measurement(i64 median_ns) {
  TuningMeasurement one;
  one.median_ns = median_ns;
  one.least_ns = median_ns - 10;
  one.spread_ns = 5;
  one.driver = "580";
  return one;
}

void put_tuning(const Put& put) {
  const TuningEnvironment environment{"GPU", "9.0", 132, 1 << 20, "13.0"};
  const auto with = [](TuningMeasurement one, TuningConfig config) {
    one.config = std::move(config);
    return one;
  };
  TuningEntry gather =
      make_entry(environment, gather_bucket(DType::F16, 64, 27, 1000), with(measurement(900), tile_config(8)),
                 {with(measurement(700), tile_config(16)), with(measurement(100), tile_config(32))});
  TuningEntry search = make_entry(environment, search_bucket(KeyType::U64, 3, 27, 0),
                                  with(measurement(50), config_of(SearchChoice())), {});
  TuningEntry grouping = make_entry(environment, grouping_bucket(DType::BF16, 8, 5),
                                    with(measurement(50), config_of(GroupingChoice())), {});
  TuningEntry layer =
      make_entry(environment, layer_bucket(Operation::Dataflow, ConvolutionProblem(), 1000, 9),
                 with(measurement(50), config_of(Dataflow::Fused)),
                 {with(measurement(40), config_of(Dataflow::GatherGemmScatter))});
  for (TuningEntry* const entry : {&gather, &search, &grouping, &layer}) entry->kernels = "digest";
  put("tuning/whole-gather.json", write_tuning({gather}));
  put("tuning/whole-layer.json", write_tuning({layer}));
  put("tuning/whole-search.json", write_tuning({search}));
  put("tuning/whole-grouping.json", write_tuning({grouping}));
  put("tuning/whole-section.json", write_tuning({gather, search, grouping}));
  put("tuning/whole-mark.json", kMark + write_tuning({gather}));
  put("tuning/lfs.json", kLfsPointer);
  put("tuning/deep.json", std::string(300, '['));
}

/// What safetensors_fuzz takes for a header with tensors.
std::string tensors(const std::string& header, const std::string& data) {
  const char size[2] = {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return '\1' + std::string(size, 2) + header + data;
}

void write_tensors(const Put& put) {
  const std::string zeros(64, '\0');
  const std::string one = R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  put("safetensors/whole-one.bin", tensors(one, zeros.substr(0, 16)));
  put("safetensors/whole-all.bin",
      tensors(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F64","shape":[1,1,3],"data_offsets":[0,24]},)"
              R"("b.bias":{"dtype":"F16","shape":[2],"data_offsets":[24,28]},)"
              R"("b.weight":{"dtype":"BF16","shape":[],"data_offsets":[28,30]},)"
              R"("n":{"dtype":"I64","shape":[1],"data_offsets":[30,38]},)"
              R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[38,38]}})",
              std::string(8, '\x55') + std::string(16, '\xff') + std::string("\1\0\xff\x7b\x80\x7f", 6) +
                  zeros.substr(0, 8)));
  put("safetensors/hole.bin", tensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                                      zeros.substr(0, 12)));
  // Tensors that share bytes, of sizes that are together those of the file.
  put("safetensors/shared.bin", tensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                        R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
                                        R"("c":{"dtype":"F32","shape":[0],"data_offsets":[12,12]}})",
                                        zeros.substr(0, 16)));
  put("safetensors/lfs.bin", '\0' + kLfsPointer);
  put("safetensors/index.bin", '\0' + kShardIndex);
  put("safetensors/torch.bin", '\0' + kTorchZip);
  const std::uint64_t length = one.size();
  std::string file(9, '\0');
  std::memcpy(&file[1], &length, sizeof length);
  put("safetensors/whole-file.bin", file + one + zeros.substr(0, 16));
  put("safetensors/past-the-end.bin", tensors(one, "too few"));
  // 2^63 as a real number, which llvm::json takes for an int64_t.
  put("safetensors/past-integers.bin",
      tensors(R"({"a":{"dtype":"F32","shape":[9223372036854775808.0],"data_offsets":[0,0]}})", ""));
  put("safetensors/overflow.bin",
      tensors(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""));
}

/// Writes checkpoints of both forms, as whole files and as a pickle with its storages (checkpoint_fuzz.cc).
void write_checkpoints(const Put& put) {
  const std::map<std::string, FileTensor> tensors{{"a.weight", {{2, 1, 3}, {1, 2, 3, 4, 5, 6}}},
                                                  {"a.bias", {{1}, {-1}}}};
  put("checkpoint/whole-zip.bin", '\0' + torch::checkpoint(tensors, torch::Form::Zip));
  put("checkpoint/whole-old.bin", '\0' + torch::checkpoint(tensors, torch::Form::Old));
  const std::string evil = torch::call(torch::global("os", "system"), {torch::text("true")});
  const auto write = [&](const std::string& name, bool is_old, const std::string& root) {
    const std::string pickle = torch::pickle(root);
    const char size[2] = {static_cast<char>(pickle.size() & 0xff), static_cast<char>(pickle.size() >> 8)};
    put("checkpoint/" + name + (is_old ? "-old.bin" : "-zip.bin"),
        (is_old ? '\2' : '\1') + std::string(size, 2) + pickle + std::string(32, '\x3d'));
  };
  for (const bool is_old : {false, true}) {
    const std::string floats = torch::storage("FloatStorage", "0", 4, is_old),
                      doubles = torch::storage("DoubleStorage", "1", 2, is_old),
                      counts = torch::storage("LongStorage", "1", 2, is_old);
    const std::string turned = torch::tensor(floats, 0, {2, 2}, {1, 2});
    const std::string number = torch::tensor(doubles, 1, {}, {});
    write("whole-views", is_old, torch::ordered_dict({{"w", torch::parameter(turned)}, {"x", number}}));
    write("whole-key", is_old,
          torch::dict(
              {{"epoch", torch::integer(7)},
               {"it", evil + torch::dict({}) + "b"},
               {"model_state", torch::dict({{"m.weight", torch::tensor(floats, 1, {3}, {1})},
                                            {"m.num_batches_tracked", torch::tensor(counts, 0, {}, {})}})},
               {"optimizer", torch::list({torch::real(), torch::tuple({torch::none()})})}}));
    write("several", is_old,
          torch::dict({{"net", torch::dict({{"a", turned}, {"b", number}})},
                       {"model", torch::dict({{"a", turned}})}}));
    write("overlap", is_old, torch::dict({{"a", torch::tensor(floats, 0, {9, 9}, {0, 0})}, {"b", number}}));
    write("evil", is_old, torch::dict({{"a", turned}, {"b", number}, {"c", evil}}));
  }
}

void write_networks(const Put& put) {
  put("network/whole-unet.json",
      R"({"name":"n","ndim":3,"in_channels":4,"channels":[8,16],"layers":[)"
      R"({"op":"block","name":"stem","width":0,"kernel_size":3,"save":"fine"},)"
      R"({"op":"block","name":"down","width":1,"kernel_size":2,"stride":2},)"
      R"({"op":"residual","name":"r","width":1},)"
      R"({"op":"up","name":"up","width":0,"kernel_size":2,"stride":2,"onto":"fine"},)"
      R"({"op":"concat","with":"fine"},{"op":"residual","name":"s","width":0},{"op":"head","name":"h"}]})");
  const std::string small = R"({"name":"n","ndim":2,"in_channels":1,"channels":[3],"layers":[)"
                            R"({"op":"block","name":"b","width":0,"kernel_size":[1,5],"dilation":[2,1]}]})";
  put("network/whole-small.json", small);
  put("network/whole-mark.json", kMark + "\r" + small + "\r\n");
  put("network/lfs.json", kLfsPointer);
  put("network/index.json", kShardIndex);
  put("network/whole-fields.json",
      R"({"name":"n","ndim":2,"in_channels":2,"channels":[4,6],"layers":[)"
      R"({"op":"block","name":"a","width":0,"bias":true,"norm":"none","activation":"leaky_relu","slope":0.25},)"
      R"({"op":"residual","name":"b","width":1,"stride":2,"affine":false,"epsilon":1e-3,"activation":"none","conv1":{"activation":"relu","bias":true,"groups":2},"shortcut":{"norm":"none"}},)"
      R"({"op":"bottleneck","name":"c","width":1,"inner_width":0,"kernel_size":5,"track_running_stats":true,"conv2":{"activation":"leaky_relu"},"conv3":{"bias":true}},)"
      R"({"op":"head","name":"h","bias":false,"activation":"relu","classes":3}]})");
  put("network/whole-graph.json",
      R"({"name":"n","ndim":2,"shape":[40,30],)"
      R"("outputs":["c","twice","d"],"inputs":[{"name":"p","channels":2},{"name":"q","channels":3,"level":"a"}],"layers":[)"
      R"({"op":"block","name":"a","out_channels":4,"kernel_size":3,"stride":2,"rule":"reached","padding":[1,0],"output":"a"},)"
      R"({"op":"concat","with":"q","output":"b"},)"
      R"({"op":"inverse","name":"i","of":"a","out_channels":2,"input":"b","output":"c"},)"
      R"({"op":"concat","with":"c","output":"twice"},)"
      R"({"op":"max_pool","name":"m","input":"p","rule":"reached","kernel_size":2},)"
      R"({"op":"bottleneck","name":"e","out_channels":4,"inner_channels":1,"rule":"reached","output":"d"}]})");
  put("network/twice.json",
      R"({"name":"n","ndim":1,"in_channels":1,"channels":[3],"layers":[)"
      R"({"op":"block","name":"a","width":0,"save":"a"},{"op":"block","name":"b","width":0,"save":"b"},)"
      R"({"op":"concat","with":"a","save":"c"},{"op":"block","name":"d","width":0},{"op":"concat","with":"c"},)"
      R"({"op":"block","name":"e","width":0}]})");
  put("network/whole-dense.json",
      R"({"name":"n","ndim":3,"in_channels":2,"shape":[8,8,4],"layers":[)"
      R"({"op":"max_pool","name":"p","output":"l"},{"op":"to_dense","format":"channels_last"},)"
      R"({"op":"from_dense","onto":"l"},{"op":"birds_eye","image_axes":[1,0]}]})");
  put("network/whole-pointwise.json",
      R"({"name":"n","ndim":1,"in_channels":2,"outputs":["m","z"],"layers":[)"
      R"({"op":"leaky_relu","slope":0.5},{"op":"gelu","approximate":"tanh","output":"g"},{"op":"silu"},)"
      R"({"op":"add","with":"g"},{"op":"multiply","with":"input"},{"op":"softmax","output":"z"},)"
      R"({"op":"batch_norm","name":"b","affine":false},{"op":"layer_norm","name":"l","epsilon":0.5},)"
      R"({"op":"scale_shift","name":"s"},{"op":"sigmoid"},{"op":"relu"},{"op":"argmax","output":"m"}]})");
  put("network/whole-covered.json",
      R"({"name":"n","ndim":1,"in_channels":2,"layers":[)"
      R"({"op":"block","name":"a","out_channels":2,"bias":true,"norm":"none","activation":"none","output":"a"},)"
      R"({"op":"batch_norm","name":"b"},{"op":"relu"},)"
      R"({"op":"block","name":"c","out_channels":2,"norm":"none","activation":"none"},)"
      R"({"op":"scale_shift","name":"d"},{"op":"add","with":"a"},{"op":"tanh"},)"
      R"({"op":"linear","name":"e","out_channels":3,"activation":"gelu_tanh"}]})");
  put("network/whole-levels.json",
      R"({"name":"n","ndim":2,"in_channels":2,"shape":[8,6],"layers":[)"
      R"({"op":"max_pool","name":"p","kernel_size":3,"stride":2,"output":"l"},)"
      R"({"op":"linear","name":"a","out_channels":3,"bias":false},)"
      R"({"op":"unpool","name":"u","of":"p","reduction":"sum"},)"
      R"({"op":"upsample","name":"n","input":"l","onto":"input"},{"op":"collapse","name":"c","axis":1},)"
      R"({"op":"union","name":"t","input":"l","with":"input"},)"
      R"({"op":"union","name":"v","input":"l","with":"input","combine":"concat"},)"
      R"({"op":"intersection","name":"w","input":"l","with":"input","combine":"concat"},)"
      R"({"op":"generative_up","name":"g","out_channels":3,"kernel_size":2,"output":"g"},)"
      R"({"op":"generative_up","name":"h","input":"l","out_channels":3,"kernel_size":[3,2],"stride":2,"rule":"reached",)"
      R"("padding":[1,0],"output_padding":1}]})");
  put("network/whole-items.json",
      R"({"name":"n","ndim":3,"in_channels":2,"shape":[8,6,4],"outputs":["m","s"],"layers":[)"
      R"({"op":"collapse","name":"c","axis":1},)"
      R"({"op":"block","name":"b","out_channels":3,"kernel_size":[3,2],"stride":[2,1]},)"
      R"({"op":"global_pool","name":"g","reduction":"average","output":"m"},)"
      R"({"op":"global_pool","name":"h","input":"input","reduction":"max"},{"op":"concat","with":"m"},)"
      R"({"op":"linear","name":"l","out_channels":4},{"op":"softmax","output":"s"}]})");
  put("network/whole-space.json",
      R"({"name":"n","ndim":2,"in_channels":3,"layers":[)"
      R"({"op":"space_to_channel","name":"a","stride":[2,3],"output":"l"},)"
      R"({"op":"space_to_channel","name":"b","stride":2},{"op":"channel_to_space","name":"c","onto":"l"},)"
      R"({"op":"channel_to_space","name":"d","input":"l","onto":"input"}]})");
  put("network/pool.json",
      R"({"name":"n","ndim":1,"in_channels":1,"channels":[1],"layers":[{"op":"max_pool","name":"p"}]})");
}

/// Arrays for parameters_fuzz: the weight of a convolution [8, 3, 4], or a vector of 4.
void write_arrays(const Put& put) {
  const auto narrow = [](std::initializer_list<int> head, std::vector<int> shape, std::vector<int> strides) {
    std::string bytes;
    for (const int number : head) bytes += static_cast<char>(number);
    bytes += '\0';
    shape.resize(6), strides.resize(6);
    for (const int number : shape) bytes += static_cast<char>(number);
    for (const int number : strides) bytes += static_cast<char>(number);
    return bytes;
  };
  // The head is the parameter, the order, the element, the rank, has_strides and on_host.
  put("parameters/whole-weight.bin", narrow({0, 1, 0, 3, 0, 0}, {8, 3, 4}, {}));
  put("parameters/axes.bin", narrow({0, 1, 0, 5, 0, 1}, {2, 2, 2, 3, 4}, {}));
  put("parameters/whole-apart.bin", narrow({0, 1, 0, 3, 1, 0}, {8, 3, 4}, {40, 13, 3}));
  put("parameters/whole-repeated.bin", narrow({0, 1, 0, 3, 1, 0}, {8, 3, 4}, {0, 0, 0}));
  put("parameters/whole-spconv.bin", narrow({0, 4, 2, 5, 0, 0}, {4, 2, 2, 2, 3}, {}));
  put("parameters/whole-f64.bin", narrow({2, 0, 4, 1, 1, 0}, {4}, {7}));
  put("parameters/whole-scale.bin", narrow({1, 0, 3, 1, 0, 0}, {4}, {}));
  put("parameters/rank.bin", narrow({0, 1, 0, 7, 0, 0}, {8, 3, 4}, {}));
  std::string wide{'\0', '\1', '\0', '\3', '\1', '\0', '\1'};
  for (const int64_t number : {int64_t{8}, int64_t{3}, int64_t{4}, int64_t{0}, int64_t{0}, int64_t{0},
                               int64_t{1} << 62, int64_t{1} << 61, int64_t{1}})
    wide.append(reinterpret_cast<const char*>(&number), sizeof(number));
  put("parameters/far.bin", wide);
}

/// What plan_fuzz takes for a document and what is behind it.
std::string plan_input(const std::string& document, const std::string& rest) {
  const char size[2] = {static_cast<char>(document.size() & 0xff), static_cast<char>(document.size() >> 8)};
  return '\1' + std::string(size, 2) + document + rest;
}

void write_plans(const Put& put) {
  const std::unique_ptr<KernelCache> cache = make_cache("", std::make_shared<FakeCompiler>());
  const auto whole = [&](const std::string& name, const std::shared_ptr<const Plan>& plan) {
    put("plan/whole-" + name + ".bin", '\0' + llvm::cantFail(serialize_plan(*plan, *cache, {})));
  };
  ConvolutionProblem convolution;
  convolution.ndim = 1;
  convolution.in_channels = 2, convolution.out_channels = 3;
  convolution.scale_shift = true;
  convolution.set_activation(Activation::LeakyReLU, 0.25f);
  const LayerParameters parameters{std::vector<float>(6, 0.5f), std::vector<float>(3, 2), {1, 2, 3}};
  const auto plan = llvm::cantFail(Plan::create(convolution, parameters));
  whole("convolution", plan);
  PoolingProblem pooling;
  pooling.channels = 3;
  pooling.kernel_size = {2, 2, 2, 1};
  whole("pooling", llvm::cantFail(Plan::create(pooling, {})));
  PointwiseProblem chain;
  chain.channels = 2;
  chain.steps = {{PointwiseKind::Affine}, {PointwiseKind::LeakyReLU, 0.5f}, {PointwiseKind::Add}};
  LayerParameters affine;
  affine.scale = {1, 2}, affine.shift = {3, 4};
  whole("pointwise", llvm::cantFail(Plan::create(chain, affine)));
  NetworkProblem network;
  network.description = llvm::cantFail(
      parse_network(R"({"name":"n","ndim":1,"in_channels":1,"channels":[2],"layers":[)"
                    R"({"op":"block","name":"a","width":0,"kernel_size":3},{"op":"head","name":"h"}]})"));
  network.channels = {3};
  whole("network", llvm::cantFail(Plan::create(network, ParameterSource(std::uint64_t{1}))));
  const std::string bundle = llvm::cantFail(make_bundle("sm_90a", {make_kernel("gather")}));
  put("plan/whole-document.bin",
      plan_input(llvm::cantFail(write_document(*plan, {{"sm_90a", bundle.size(), {"nvrtc"}}}, true)),
                 std::string(12 + 24, '\0') + bundle));
  put("plan/large.bin",
      plan_input(R"({"problem":{"kind":"convolution","ndim":3,"dtype":"fp32","kernel_size":[100,100,100,1],)"
                 R"("stride":[1,1,1,1],"dilation":[1,1,1,1],"outputs":"submanifold","in_channels":65536,)"
                 R"("out_channels":65536,"groups":1,"scale_shift":false,"residual":false,)"
                 R"("activation":"none","slope":1e300,"dataflow":"auto"},"tuning":[],"bundles":[]})",
                 "few"));
  put("plan/bundle.bin", '\0' + bundle);
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

std::string packed_lzf(const std::string& bytes) {
  std::string out(2 * bytes.size() + 16, '\0');
  const auto size = static_cast<unsigned>(bytes.size());
  out.resize(lzf_compress(bytes.data(), size, out.data(), static_cast<unsigned>(out.size())));
  return bytes_of({static_cast<unsigned>(out.size()), size}) + out;
}

/// PLY files as other programs write them.
void write_odd_ply(const Put& put, const std::string& vertex, const std::string& points) {
  const std::string ascii = "ply\nformat ascii 1.0\n";
  put("ply/whole-words.ply", ascii + vertex + "end_header\n1 2\n3 -1e3\tnan\n\n+5");
  put("ply/whole-returns.ply",
      kMark + "\rply \rformat binary_big_endian 1.0\r" +
          "element vertex 1\rproperty int X\rproperty int Y\rproperty int z\rend_header\r" + "\n\n\r\r" +
          std::string(8, '\7'));
  put("ply/whole-types.ply",
      "ply\nformat binary_little_endian 1.0\nelement e 1\nproperty list bool int64 l\nelement vertex 1\n"
      "property half x\nproperty uint64 y\nproperty int64 z\nproperty bool keep\nproperty half Intensity\n"
      "end_header\n\1" +
          std::string(8 + 2 + 8 + 8 + 1 + 2, '\x34'));
  const std::string face = "element face 2\nproperty list uchar int v\nend_header\n";
  put("ply/whole-faces-short.ply", ascii + vertex + face + "1 2 3\n4 5 6\n3 0 1\n");
  put("ply/whole-faces-long.ply",
      "ply\nformat binary_little_endian 1.0\n" + vertex + face + points + std::string("\0\0\1", 3));
  put("ply/faces-shifted.ply", ascii + vertex + face + "1 2 3 9\n4 5 6 9\n3 0 1\n1 0\n");
  put("ply/commas.ply", ascii + vertex + "end_header\n0,5 1,5 2\n1.0D+00 3 4\n");
  put("ply/lfs.ply", kLfsPointer);
}

void write_clouds(const Put& put) {
  const std::string points = bytes_of({1.5f, -2.0f, 3.0f, 4.0f, 5.0f, -6.5f});
  const std::string vertex = "element vertex 2\nproperty float x\nproperty float y\nproperty float z\n";
  put("ply/whole-ascii.ply", "ply\nformat ascii 1.0\ncomment c\n" + vertex +
                                 "property float intensity\nend_header\n1 2 3 0.5\n-1e3 nan +5 1\n");
  put("ply/whole-binary.ply",
      "ply\nformat binary_little_endian 1.0\nelement face 1\nproperty list uchar int v\n" + vertex +
          "end_header\n" + "\1" + std::string(4, '\7') + points);
  put("ply/whole-big.ply", "ply\r\nformat binary_big_endian 1.0\r\n" + vertex + "end_header\n" + points);
  put("ply/lists.ply",
      "ply\nformat ascii 1.0\n" + vertex + "property list float int v\nend_header\n1 2 3 1e9 1\n");
  write_odd_ply(put, vertex, points);
  const std::string fields = "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nWIDTH 2\nHEIGHT 1\nDATA ";
  put("pcd/whole-ascii.pcd",
      "# c\nFIELDS x n y z intensity\nSIZE 4 2 8 4 1\nTYPE F I F F U\nCOUNT 1 2 1 1 1\n"
      "WIDTH 1\nHEIGHT 2\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 2\nDATA ascii\n"
      "1 7 8 -2 3 4\nnan 7 8 inf 1e9 0\n");
  put("pcd/whole-binary.pcd", fields + "binary\n" + points);
  put("pcd/whole-compressed.pcd", fields + "binary_compressed\n" + packed_lzf(std::string(24, '\0')));
  put("pcd/whole-points.pcd",
      kMark + "# c\rVERSION .7\rFIELDS X Y Z i\r\rPOINTS 2\rDATA ASCII\r1 2 3 4\r5 6 7 8\r");
  put("pcd/whole-lower.pcd",
      "COLUMNS x y z\nSIZE 2 4 8\nTYPE i f float\nWIDTH 1\nPOINTS 1\nDATA Binary\n" + std::string(14, '\1'));
  put("pcd/commas.pcd", "FIELDS x y z\nPOINTS 1\nDATA ascii\n0,5 1D2 3\n");
  put("pcd/lfs.pcd", kLfsPointer);
  put("pcd/too-large.pcd",
      "FIELDS x y z\nSIZE 1 1 1\nTYPE I I I\nWIDTH 4611686018427387904\nHEIGHT 4\nDATA binary\n");
  const auto npy = [](const std::string& header, const std::string& data) {
    return "\x93NUMPY\x01" + std::string(1, '\0') + static_cast<char>(header.size()) + std::string(1, '\0') +
           header + data;
  };
  put("npy/whole-points.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", points));
  put("npy/whole-fortran.npy",
      npy("{'descr': '>f2', 'fortran_order': True, 'shape': (2, 5), }", std::string(20, '\x3c')));
  put("npy/whole-voxels.npy", npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", points));
  put("npy/whole-batches.npy", npy("{'shape': (1, 4), 'fortran_order': False, 'descr': '|u1'}", "\1\2\3\4"));
  put("npy/whole-python2.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }", points));
  put("npy/whole-big-halves.npy", npy("{'descr': '>f2', 'fortran_order': False, 'shape': (1, 4), }",
                                      std::string("\x3e\0\xc6\x80\x34\1\0\1", 8)));
  put("npy/whole-big-doubles.npy",
      npy("{'descr': '>f8', 'fortran_order': False, 'shape': (1L, 3L), }", std::string(24, '\x40')));
  put("npy/lfs.npy", kLfsPointer);
  put("npy/too-large.npy",
      npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", points));
}

void write_seeds(const std::string& folder) {
  const Put put = [&](const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(std::filesystem::path(folder + "/" + name).parent_path());
    write_text(folder + "/" + name, bytes);
  };
  write_kernels(put);
  put_tuning(put);
  write_tensors(put);
  write_checkpoints(put);
  write_networks(put);
  write_plans(put);
  write_arrays(put);
  write_clouds(put);
}

}  // namespace
}  // namespace minuet

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  minuet::write_seeds(arguments[1]);
  return 0;
}
