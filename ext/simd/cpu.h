// Whether the CPU that this runs on has what a SIMD level needs.
#pragma once

#if defined(_MSC_VER) && defined(_M_X64)
#include <intrin.h>
#endif

namespace vs {

inline bool cpu_has_scalar() { return true; }
inline bool cpu_has_neon() { return true; }  // a part of every 64-bit ARM

#if defined(__x86_64__) || defined(_M_X64)
#if defined(_MSC_VER)
inline bool cpu_leaf(int index, int reg, int bit) {
    int r[4];
    __cpuidex(r, index, 0);
    return (r[reg] >> bit) & 1;
}
inline bool cpu_saves(unsigned long long mask) {
    return cpu_leaf(1, 2, 27) && (_xgetbv(0) & mask) == mask;
}
inline bool cpu_has_v2() { return cpu_leaf(1, 2, 20) && cpu_leaf(1, 2, 23); }
inline bool cpu_has_v3() {
    return cpu_has_v2() && cpu_saves(6) && cpu_leaf(1, 2, 12) && cpu_leaf(7, 1, 5) &&
           cpu_leaf(7, 1, 8);
}
inline bool cpu_has_v4() {
    return cpu_has_v3() && cpu_saves(0xe6) && cpu_leaf(7, 1, 16) && cpu_leaf(7, 1, 17) &&
           cpu_leaf(7, 1, 30) && cpu_leaf(7, 1, 31);
}
#else
inline bool cpu_has_v2() {
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
}
inline bool cpu_has_v3() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}
inline bool cpu_has_v4() {
    return cpu_has_v3() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif
#endif

}  // namespace vs
