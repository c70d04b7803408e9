// The messages of ONNX files, as libonnx defines them. Only this folder includes it; CMake says that it is the
// variant of the messages that the library was built with.
#pragma once

#include <onnx/onnx_pb.h>  // IWYU pragma: export
