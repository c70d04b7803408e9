#include "tests/support/onnx_decoder.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "tests/support/onnx_text.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Sizes = std::vector<int>;

/// Values are called as what they are; a layer's begin with its name.
class Writer {
 public:
  explicit Writer(const OnnxDecoder& decoder) : d_(decoder) {}

  std::string text() {
    call("Gather", {weight("tokens", {d_.vocab, d_.hidden}), "ids"}, "embedded");
    std::string x = call("Add", {"embedded", weight("places", {d_.seq, d_.hidden})}, "start");
    add_constants();
    for (int layer = 0; layer < d_.layers; ++layer) x = this->layer(fmt::format("layer{}", layer), x);
    call("Transpose", {"tokens"}, "head", permutation("1, 0"));
    call("MatMul", {normed("last", x), "head"}, "scores");
    return fmt::format(
        "ir_version: 8 opset_import {{ version: 17 }} graph {{ {} input {{ name: \"ids\" type {{ tensor_type "
        "{{ elem_type: 7 shape {{ dim {{ dim_param: \"batch\" }} dim {{ dim_value: {} }} }} }} }} }} "
        "output {{ name: \"scores\" }} }}",
        text_, d_.seq);
  }
  /// Of all weights.
  std::size_t elements() const { return elements_; }

 private:
  void add_constants() {
    std::vector<std::string> places;
    for (int i = 0; i < d_.seq; ++i) places.push_back(fmt::to_string(i));
    const std::string all = fmt::format("data_type: 7 int64_data: [{}]", fmt::join(places, ", "));
    constant("of_key", fmt::format("{} dims: 1 dims: {}", all, d_.seq));
    constant("of_query", fmt::format("{} dims: {} dims: 1", all, d_.seq));
    call("Less", {"of_query", "of_key"}, "is_later");
    constant("split",
             fmt::format("data_type: 7 dims: 4 int64_data: [0, 0, {}, {}]", d_.heads, d_.hidden / d_.heads));
    constant("joined", fmt::format("data_type: 7 dims: 3 int64_data: [0, 0, {}]", d_.hidden));
    const double pi = std::acos(-1.0);
    for (const auto& [name, value] : {std::pair("never", -1e9),
                                      {"scale", std::sqrt(1.0 * d_.heads / d_.hidden)},
                                      {"one", 1.0},
                                      {"half", 0.5},
                                      {"of_cube", 0.044715},
                                      {"of_tanh", std::sqrt(2 / pi)}})
      constant(name, fmt::format("data_type: 1 float_data: {}", value));
  }

  std::string layer(const std::string& name, const std::string& x) {
    const std::string seen = normed(name + ".before", x);
    for (const char* part : {".q", ".k", ".v"}) {
      call("Reshape", {dense(name + part, seen, d_.hidden), "split"}, name + part + ".split");
      call("Transpose", {name + part + ".split"}, name + part + ".heads", permutation("0, 2, 1, 3"));
    }
    const std::string joined = attended(name);
    const std::string y = call("Add", {x, dense(name + ".o", joined, d_.hidden)}, name + ".middle");
    const std::string up =
        gelu(name + ".gelu", dense(name + ".up", normed(name + ".between", y), d_.hidden, 4));
    return call("Add", {y, dense(name + ".down", up, 4 * d_.hidden, 0.25)}, name);
  }

  std::string attended(const std::string& name) {
    call("Transpose", {name + ".k.heads"}, name + ".k.turned", permutation("0, 1, 3, 2"));
    call("MatMul", {name + ".q.heads", name + ".k.turned"}, name + ".products");
    call("Mul", {name + ".products", "scale"}, name + ".scaled");
    call("Where", {"is_later", "never", name + ".scaled"}, name + ".masked");
    call("Softmax", {name + ".masked"}, name + ".shares", "attribute { name: \"axis\" type: INT i: -1 }");
    call("MatMul", {name + ".shares", name + ".v.heads"}, name + ".attended");
    call("Transpose", {name + ".attended"}, name + ".rows", permutation("0, 2, 1, 3"));
    return call("Reshape", {name + ".rows", "joined"}, name + ".joined");
  }

  std::string normed(const std::string& name, const std::string& x) {
    return call("LayerNormalization",
                {x, weight(name + ".weight", {d_.hidden}), weight(name + ".bias", {d_.hidden})}, name,
                "attribute { name: \"epsilon\" type: FLOAT f: 1e-5 }");
  }

  /// To `times` as many features.
  std::string dense(const std::string& name, const std::string& x, int features, double times = 1) {
    const int to = static_cast<int>(features * times);
    call("MatMul", {x, weight(name + ".weight", {features, to})}, name + ".product");
    return call("Add", {name + ".product", weight(name + ".bias", {to})}, name);
  }

  std::string gelu(const std::string& name, const std::string& x) {
    call("Mul", {x, x}, name + ".square");
    call("Mul", {name + ".square", x}, name + ".cube");
    call("Mul", {name + ".cube", "of_cube"}, name + ".bent");
    call("Add", {x, name + ".bent"}, name + ".sum");
    call("Mul", {name + ".sum", "of_tanh"}, name + ".inner");
    call("Tanh", {name + ".inner"}, name + ".tanh");
    call("Add", {name + ".tanh", "one"}, name + ".gate");
    call("Mul", {x, name + ".gate"}, name + ".twice");
    return call("Mul", {name + ".twice", "half"}, name);
  }

  static std::string permutation(std::string_view dims) {
    return fmt::format("attribute {{ name: \"perm\" type: INTS ints: [{}] }}", dims);
  }

  std::string call(std::string_view op, const std::vector<std::string>& operands, std::string result,
                   std::string_view attribute = "") {
    text_ +=
        fmt::format("node {{ op_type: \"{}\" name: \"{}\" output: \"{}\" {} ", op, result, result, attribute);
    for (const std::string& operand : operands) text_ += fmt::format("input: \"{}\" ", operand);
    text_ += "}\n";
    return result;
  }

  void constant(std::string_view name, const std::string& tensor) {
    call("Constant", {}, std::string(name),
         fmt::format("attribute {{ name: \"value\" type: TENSOR t {{ {} }} }}", tensor));
  }

  std::string weight(std::string name, const Sizes& sizes) {
    std::size_t count = 1;
    std::string dims;
    for (int size : sizes) {
      count *= static_cast<std::size_t>(size);
      dims += fmt::format("dims: {} ", size);
    }
    text_ += fmt::format(
        "initializer {{ name: \"{}\" data_type: 1 {} data_location: EXTERNAL external_data {{ key: "
        "\"location\" "
        "value: \"weights.bin\" }} external_data {{ key: \"offset\" value: \"{}\" }} }}\n",
        name, dims, elements_ * sizeof(float));
    elements_ += count;
    return name;
  }

  const OnnxDecoder& d_;
  std::string text_;
  std::size_t elements_ = 0;
};

}  // namespace

std::string onnx_decoder(const std::string& folder, const OnnxDecoder& decoder, int batch) {
  Writer writer(decoder);
  write_bytes(folder + "/decoder.onnx", onnx_of_text(writer.text()));
  constexpr std::size_t most = 1 << 16;  // those of larger ones are zero, and take no room on the disk
  std::vector<float> weights(std::min(most, writer.elements()));
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = 0.1F * std::sin(static_cast<float>(i * i % 1009));
  const std::string path = folder + "/weights.bin";
  write_bytes(path, {reinterpret_cast<const char*>(weights.data()), weights.size() * sizeof(float)});
  std::filesystem::resize_file(path, writer.elements() * sizeof(float));
  return fmt::format("{}/decoder.onnx:batch={}", folder, batch);
}

}  // namespace shardwright
