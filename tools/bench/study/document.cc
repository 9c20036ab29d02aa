#include "tools/bench/study/document.h"

#include <algorithm>

#include "codegen/base/number_text.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

const char* verdict_text(Verdict verdict) {
  return verdict == Verdict::Holds ? "holds" : verdict == Verdict::Fails ? "does not hold" : "not measured";
}

}  // namespace

StudyPlot::StudyPlot(std::string title, std::string kind, llvm::json::Object x, llvm::json::Object y)
    : title_(std::move(title)), kind_(std::move(kind)), x_(std::move(x)), y_(std::move(y)) {}

llvm::json::Array& StudyPlot::values_of(const std::string& series) {
  for (auto& [name, values] : series_) {
    if (name == series) return values;
  }
  return series_.emplace_back(series, llvm::json::Array()).second;
}

void StudyPlot::add(const std::string& series, llvm::json::Value x, const std::vector<double>& samples) {
  values_of(series).push_back(llvm::json::Object{{"x", std::move(x)},
                                                 {"y", median(samples)},
                                                 {"low", quantile(samples, 0.1)},
                                                 {"high", quantile(samples, 0.9)},
                                                 {"min", quantile(samples, 0)},
                                                 {"max", quantile(samples, 1)},
                                                 {"runs", static_cast<int64_t>(samples.size())}});
}

void StudyPlot::add_value(const std::string& series, llvm::json::Value x, double value) {
  values_of(series).push_back(llvm::json::Object{{"x", std::move(x)}, {"y", value}});
}

llvm::json::Object StudyPlot::json() && {
  llvm::json::Array all;
  for (auto& [name, values] : series_) all.push_back(series(name, std::move(values)));
  return plot(title_, kind_, std::move(x_), std::move(y_), std::move(all));
}

void StudyDocument::claim(const std::string& paper, const std::string& here, Verdict verdict,
                          const std::string& why) {
  claims_.push_back(
      llvm::json::Object{{"paper", paper}, {"here", here}, {"shape", verdict_text(verdict)}, {"why", why}});
}

void StudyDocument::add_table(llvm::StringRef title, const std::vector<const char*>& columns,
                              llvm::json::Array rows) {
  tables_.push_back(table(title, llvm::json::Array(columns), std::move(rows)));
}

llvm::json::Object StudyDocument::json(const StudyBench& bench, double seconds) && {
  llvm::json::Object document = bench.machine();
  document["study"] = study_;
  document["title"] = title_;
  document["size"] = bench.by_size("tiny", "small", "full");
  document["seconds"] = seconds;
  document["method"] =
      "Times are medians with p10 and p90. A whole inference is timed by the host's clock, from unsorted "
      "coordinates and features in device memory to the output, and makes all maps anew. Times of stages and "
      "layers come from profiled runs.";
  document["claims"] = std::move(claims_);
  document["notes"] = std::move(notes_);
  document["plots"] = std::move(plots_);
  document["tables"] = std::move(tables_);
  return document;
}

std::string times_text(double factor) { return fixed_text(factor, 2) + " x"; }

std::string speedups_text(const std::vector<double>& factors) {
  if (factors.empty()) return "not measured";
  const auto [least, greatest] = std::minmax_element(factors.begin(), factors.end());
  return llvm::formatv("on average {0}, from {1} to {2}", times_text(geometric_mean(factors)),
                       times_text(*least), times_text(*greatest))
      .str();
}

}  // namespace minuet::tool
