#include "shardwright/base/tensor.h"

#include <algorithm>
#include <utility>

namespace shardwright {

std::string to_text(const Type& type) {
  return fmt::format("{}{}", name_of(type.dtype), to_text(type.shape));
}

bool Tensor::operator==(const Tensor& other) const {
  return type_ == other.type_ && std::ranges::equal(bytes(), other.bytes());
}

void Tensor::own() {
  const auto elements = std::as_const(*this).bytes();
  bytes_.assign(elements.begin(), elements.end());
  lent_.reset();
}

Tensor make_tensor(Type type, std::span<const double> values) {
  Tensor t(std::move(type));
  require(static_cast<std::int64_t>(values.size()) == t.size(), "{} values for {}", values.size(),
          to_text(t.type()));
  visit(t.dtype(), [&]<class T>(std::type_identity<T>) {
    auto out = t.as<T>();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(static_cast<Compute<T>>(values[i]));
  });
  return t;
}

Tensor convert(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype) return t;
  Tensor out({dtype, t.shape()});
  visit(t.dtype(), [&]<class From>(std::type_identity<From>) {
    visit(dtype, [&]<class To>(std::type_identity<To>) {
      const auto from = t.as<From>();
      auto to = out.as<To>();
      for (std::size_t i = 0; i < to.size(); ++i)
        to[i] = static_cast<To>(static_cast<Compute<To>>(static_cast<Compute<From>>(from[i])));
    });
  });
  return out;
}

std::vector<double> to_doubles(const Tensor& t) {
  std::vector<double> out(static_cast<std::size_t>(t.size()));
  visit(t.dtype(), [&]<class T>(std::type_identity<T>) {
    const auto in = t.as<T>();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(static_cast<Compute<T>>(in[i]));
  });
  return out;
}

}  // namespace shardwright
