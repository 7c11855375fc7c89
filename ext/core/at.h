// Places in standard containers, whose sizes are unsigned.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vs {

inline std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace vs
