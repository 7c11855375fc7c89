// Compiled once per SIMD level (VS_LEVEL); see setup.py.
#include "hmm/level.h"

#include "hmm/few_rows.h"

namespace VS_NS {
namespace {

constexpr int kSmall = Vec<double>::N > 4 ? Vec<double>::N : 4;

int64_t padded(int64_t states) {
    return states <= kSmall ? kSmall : states <= 8 ? 8 : states <= 16 ? 16 : 0;
}

// Calls a pass with the width of its rows.
#define VS_FEW(call)                           \
    f.padded == kSmall ? FewRows<kSmall>::call \
    : f.padded == 8    ? FewRows<8>::call      \
                       : FewRows<16>::call

void local(const FewStates& f, int64_t first, int64_t last) { VS_FEW(local(f, first, last)); }
bool forward(const FewStates& f, int64_t sequence, bool caller) {
    return VS_FEW(forward(f, sequence, caller));
}
bool backward(const FewStates& f, int64_t sequence, bool caller) {
    return VS_FEW(backward(f, sequence, caller));
}
bool both(const FewStates& f, int64_t sequence, bool caller) {
    return VS_FEW(both(f, sequence, caller));
}
bool meet(const FewStates& f, int64_t first, int64_t last, double* sums) {
    return VS_FEW(meet(f, first, last, sums));
}

bool best(const BestStates& f, int64_t sequence, bool caller) {
    return VS_FEW(best(f, sequence, caller));
}

const vs::hmm::Level kLevel = {padded, local, forward, backward, both, meet, best, normal};

}  // namespace

template <>
const vs::hmm::Level* table<vs::hmm::Level>() {
    return &kLevel;
}

}  // namespace VS_NS
