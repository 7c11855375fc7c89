// Chooses the SIMD level once: the first of the list that the CPU supports.
#include <cstring>

#include "core/session.h"
#include "forest/level.h"
#include "simd/cpu.h"

namespace vs {
namespace {

struct Candidate {
    const char* name;
    bool (*supported)();
    int number;
};

const Candidate kCandidates[] = {
#define VS_CANDIDATE(name, NAME, text) {text, cpu_has_##name, VS_LEVEL_##NAME},
    VS_EACH_LEVEL(VS_CANDIDATE)
#undef VS_CANDIDATE
};

const Candidate* g_chosen = nullptr;

const Candidate* find(const char* name) {  // null: the best
    for (const Candidate& c : kCandidates) {
        if (c.supported() && (name == nullptr || std::strcmp(c.name, name) == 0)) return &c;
    }
    return nullptr;
}

const Candidate& chosen() {
    if (!g_chosen) g_chosen = find(nullptr);
    return *g_chosen;
}

}  // namespace

bool level_supported(const char* name) { return find(name) != nullptr; }

const char* supported_level(int i) {
    for (const Candidate& c : kCandidates) {
        if (c.supported() && i-- == 0) return c.name;
    }
    return nullptr;
}

void use_level(const char* name) {
    if (const Candidate* c = find(name)) g_chosen = c;
}

const Level& level() { return at_level<Level>(chosen().number); }

int level_number() { return chosen().number; }
const char* level_name() { return chosen().name; }
int64_t weigh(int dtype, const void* x, int64_t n, double* found) {
    return level().weigh(dtype, x, n, found);
}
double peak_flops(int dtype, int64_t iterations) { return level().peak(dtype, iterations); }
double message_flops(int dtype, int64_t labels, int64_t rows, int64_t positions) {
    Workspace workspace(1);
    return level().message_pass(dtype, labels, rows, positions, &workspace.session().packing);
}

}  // namespace vs
