// Chooses the SIMD level once: an ordered list, the first that the CPU supports wins.
#include <cstring>

#include "chain/run.h"
#include "chain/session.h"

#if defined(_MSC_VER) && defined(_M_X64)
#include <intrin.h>
#endif

namespace vs {
namespace {

bool always() { return true; }

// A level is asked for only where it was built.
#if defined(VS_HAVE_V2) || defined(VS_HAVE_V3) || defined(VS_HAVE_V4)
#if defined(_MSC_VER)
bool leaf(int index, int reg, int bit) {
    int r[4];
    __cpuidex(r, index, 0);
    return (r[reg] >> bit) & 1;
}
bool saves(unsigned long long mask) { return leaf(1, 2, 27) && (_xgetbv(0) & mask) == mask; }
[[maybe_unused]] bool has_v2() { return leaf(1, 2, 20) && leaf(1, 2, 23); }
[[maybe_unused]] bool has_v3() {
    return has_v2() && saves(6) && leaf(1, 2, 12) && leaf(7, 1, 5) && leaf(7, 1, 8);
}
[[maybe_unused]] bool has_v4() {
    return has_v3() && saves(0xe6) && leaf(7, 1, 16) && leaf(7, 1, 17) && leaf(7, 1, 30) &&
           leaf(7, 1, 31);
}
#else
[[maybe_unused]] bool has_v2() {
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
}
[[maybe_unused]] bool has_v3() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}
[[maybe_unused]] bool has_v4() {
    return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif
#endif

struct Candidate {
    const Level* (*level)();
    bool (*supported)();
    int number;
};

const Candidate kCandidates[] = {
#if defined(VS_HAVE_V4)
    {level_v4, has_v4, VS_LEVEL_V4},
#endif
#if defined(VS_HAVE_V3)
    {level_v3, has_v3, VS_LEVEL_V3},
#endif
#if defined(VS_HAVE_V2)
    {level_v2, has_v2, VS_LEVEL_V2},
#endif
#if defined(VS_HAVE_NEON)
    {level_neon, always, VS_LEVEL_NEON},
#endif
    {level_scalar, always, VS_LEVEL_SCALAR},
};

const Level* g_level = nullptr;
int g_number = VS_LEVEL_SCALAR;

}  // namespace

bool level_supported(const char* name) {
    for (const Candidate& c : kCandidates) {
        if (c.supported() && std::strcmp(c.level()->name, name) == 0) return true;
    }
    return false;
}

void use_level(const char* name) {
    for (const Candidate& c : kCandidates) {
        if (c.supported() && (name == nullptr || std::strcmp(c.level()->name, name) == 0)) {
            g_level = c.level();
            g_number = c.number;
            return;
        }
    }
}

const Level& level() {
    if (!g_level) use_level(nullptr);
    return *g_level;
}

int level_number() {
    level();
    return g_number;
}
const char* level_name() { return level().name; }
int64_t weigh(int dtype, const void* x, int64_t n, double* found) {
    return level().weigh(dtype, x, n, found);
}
double peak_flops(int dtype, int64_t iterations) { return level().peak(dtype, iterations); }
double message_flops(int dtype, int64_t labels, int64_t rows, int64_t positions) {
    Workspace workspace(1);
    return level().message_pass(dtype, labels, rows, positions, &workspace.session().packing);
}

}  // namespace vs
