#include "codegen/worker/request.h"

#include "codegen/arch.h"
#include "codegen/header_index.h"
#include "codegen/json_text.h"
#include "codegen/keys.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet {
namespace {

llvm::Expected<std::string> text_field(const llvm::json::Object& object, const char* name) {
  const auto text = object.getString(name);
  if (!text) return make_error(StatusCode::InvalidArgument, "field \"{0}\" is missing or no text", name);
  if (text->empty()) return make_error(StatusCode::InvalidArgument, "field \"{0}\" is empty", name);
  return text->str();
}

llvm::Expected<int> number_field(const llvm::json::Object& object, const char* name) {
  const auto number = object.getInteger(name);
  if (number && *number > 0 && *number < 1000000) return static_cast<int>(*number);
  return make_error(StatusCode::InvalidArgument, "field \"{0}\" is missing or no count", name);
}

/// What most kernels' requests do not have.
llvm::Error read_needs(const llvm::json::Object& object, KernelSource& source) {
  if (object.get("exact_arch") != nullptr) {
    MINUET_ASSIGN(source.exact_arch, text_field(object, "exact_arch"));
  }
  const llvm::json::Value* const options = object.get("options");
  if (options == nullptr) return llvm::Error::success();
  const llvm::json::Array* const list = options->getAsArray();
  if (list == nullptr) return make_error(StatusCode::InvalidArgument, "field \"options\" is no list");
  for (const llvm::json::Value& value : *list) {
    const auto option = value.getAsString();
    if (!option || !is_kernel_option(*option)) {
      return make_error(StatusCode::InvalidArgument,
                        "field \"options\" has one that no kernel may ask for: {0}",
                        option ? option->str() : "it is no text");
    }
    source.options.push_back(option->str());
  }
  return llvm::Error::success();
}

}  // namespace

std::string key_of(const KernelSource& source, llvm::StringRef arch) {
  return request_key(source, header_digest(source.text), compile_options(arch), arch);
}

std::string key_of(const KernelRequest& request) { return key_of(request.source, request.arch); }

std::string preamble_of(const KernelRequest& request) {
  std::string preamble;
  llvm::StringRef text = request.source.text;
  while (!text.empty()) {
    const auto [line, rest] = text.split('\n');
    const llvm::StringRef words = line.trim();
    if (!words.empty() && words.take_front(8) != "#include") break;
    if (!words.empty()) preamble += words.str() + "\n";
    text = rest;
  }
  return preamble;
}

llvm::Expected<llvm::json::Object> to_json(const KernelRequest& request) {
  const KernelSource& source = request.source;
  for (const std::string* text :
       {&source.display_name, &request.arch, &source.name_expression, &source.text}) {
    if (!llvm::json::isUTF8(*text)) {
      return make_error(StatusCode::InvalidArgument,
                        "kernel {0} has text that is not UTF-8, so that it cannot be a request",
                        llvm::json::fixUTF8(source.display_name));
    }
  }
  llvm::json::Object object{{"schema", kRequestSchema},      {"name", source.display_name},
                            {"arch", request.arch},          {"expression", source.name_expression},
                            {"least_sm", source.least_sm},   {"source", source.text},
                            {"request_key", key_of(request)}};
  if (!source.exact_arch.empty()) object["exact_arch"] = source.exact_arch;
  if (!source.options.empty()) object["options"] = llvm::json::Array(source.options);
  return object;
}

llvm::Expected<RecordedRequest> from_json(const llvm::json::Object& object) {
  MINUET_ASSIGN(const int schema, number_field(object, "schema"));
  if (schema != kRequestSchema) {
    return make_error(StatusCode::InvalidArgument, "field \"schema\" is {0}, and this library reads {1}",
                      schema, kRequestSchema);
  }
  RecordedRequest recorded;
  KernelRequest& request = recorded.request;
  MINUET_ASSIGN(request.source.display_name, text_field(object, "name"));
  MINUET_ASSIGN(request.arch, text_field(object, "arch"));
  if (capability(request.arch) == 0) {  // it becomes part of a compiler option
    return make_error(StatusCode::InvalidArgument,
                      "field \"arch\" is \"{0}\", no architecture such as sm_90a", request.arch);
  }
  MINUET_ASSIGN(request.source.name_expression, text_field(object, "expression"));
  MINUET_ASSIGN(request.source.least_sm, number_field(object, "least_sm"));
  MINUET_ASSIGN(request.source.text, text_field(object, "source"));
  MINUET_TRY(read_needs(object, request.source));
  MINUET_ASSIGN(recorded.recorded_key, text_field(object, "request_key"));
  recorded.is_same_version = recorded.recorded_key == key_of(request);
  return recorded;
}

llvm::Expected<std::string> write_request(const KernelRequest& request) {
  MINUET_ASSIGN(llvm::json::Object object, to_json(request));
  std::string line;
  llvm::raw_string_ostream(line) << llvm::json::Value(std::move(object));
  return line;
}

llvm::Expected<std::vector<RecordedRequest>> read_requests(llvm::StringRef text, std::vector<int>* torn) {
  std::vector<RecordedRequest> requests;
  for (int number = 1; !text.empty(); ++number) {
    const auto [line, rest] = text.split('\n');
    text = rest;
    if (line.trim().empty()) continue;
    const auto in_line = [&](llvm::Error error) {
      return annotate(std::move(error), llvm::formatv("line {0}", number).str());
    };
    llvm::Expected<llvm::json::Value> value = parse_json(line);
    if (!value) {
      const std::string why = llvm::toString(value.takeError());
      if (line.take_front(kRequestStart.size()) != kRequestStart)
        return in_line(make_error(StatusCode::InvalidArgument, "it is no JSON: {0}", why));
      if (torn != nullptr) torn->push_back(number);
      continue;
    }
    const llvm::json::Object* const object = value->getAsObject();
    if (object == nullptr) return in_line(make_error(StatusCode::InvalidArgument, "it is no JSON object"));
    llvm::Expected<RecordedRequest> request = from_json(*object);
    if (!request) return in_line(request.takeError());
    requests.push_back(std::move(*request));
  }
  return requests;
}

}  // namespace minuet
