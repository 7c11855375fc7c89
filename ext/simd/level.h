// The SIMD levels: the one list of them. A new one is a number and a line here, its vectors in
// vec.h, the test of the CPU in cpu.h, and its flags in setup.py.
#pragma once

#define VS_LEVEL_SCALAR 0
#define VS_LEVEL_V2 2
#define VS_LEVEL_V3 3
#define VS_LEVEL_V4 4
#define VS_LEVEL_NEON 5

// X(name, NAME, what users call it) of each level that was built, best first.
#define VS_EACH_LEVEL(X)              \
    VS_IF_V4(X(v4, V4, "x86-64-v4"))  \
    VS_IF_V3(X(v3, V3, "x86-64-v3"))  \
    VS_IF_V2(X(v2, V2, "x86-64-v2"))  \
    VS_IF_NEON(X(neon, NEON, "neon")) \
    X(scalar, SCALAR, "scalar")

#if defined(VS_HAVE_V4)
#define VS_IF_V4(x) x
#else
#define VS_IF_V4(x)
#endif
#if defined(VS_HAVE_V3)
#define VS_IF_V3(x) x
#else
#define VS_IF_V3(x)
#endif
#if defined(VS_HAVE_V2)
#define VS_IF_V2(x) x
#else
#define VS_IF_V2(x)
#endif
#if defined(VS_HAVE_NEON)
#define VS_IF_NEON(x) x
#else
#define VS_IF_NEON(x)
#endif

// The level of this translation unit, which setup.py sets: a number, and its namespace.
#ifndef VS_LEVEL
#define VS_LEVEL VS_LEVEL_SCALAR
#define VS_NS level_scalar
#endif

#if defined(_MSC_VER)
#define VS_INLINE __forceinline
#define VS_INLINE_LAMBDA  // only an attribute in front would do; the optimiser has to see it
#else
#define VS_INLINE inline __attribute__((always_inline))
#define VS_INLINE_LAMBDA __attribute__((always_inline))
#endif

#if defined(_MSC_VER)
#include <intrin.h>
#define VS_PREFETCH_READ(p) _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0)
#define VS_PREFETCH_WRITE(p) _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0)
VS_INLINE int vs_first_bit(unsigned long long m) {  // m != 0
    unsigned long i;
    _BitScanForward64(&i, m);
    return static_cast<int>(i);
}
#else
#define VS_PREFETCH_READ(p) __builtin_prefetch((p), 0, 3)
#define VS_PREFETCH_WRITE(p) __builtin_prefetch((p), 1, 3)
VS_INLINE int vs_first_bit(unsigned long long m) { return __builtin_ctzll(m); }
#endif

// A level offers each engine a table of functions of type T, which the unit of the level
// defines as a specialisation of `table` in its namespace.
#define VS_DECLARE_LEVEL(name, NAME, text) \
    namespace level_##name {               \
        template <class T>                 \
        const T* table();                  \
    }
VS_EACH_LEVEL(VS_DECLARE_LEVEL)
namespace VS_NS {
template <class T>
const T* table();
}

namespace vs {
// The table of the level with this number.
template <class T>
const T& at_level(int number) {
#define VS_CASE_LEVEL(name, NAME, text) \
    if (number == VS_LEVEL_##NAME) return *level_##name::table<T>();
    VS_EACH_LEVEL(VS_CASE_LEVEL)
#undef VS_CASE_LEVEL
    return *level_scalar::table<T>();
}

// The capsule by which other extension modules learn the level.
struct SimdApi {
    int (*level)();  // VS_LEVEL_*
};
}  // namespace vs
