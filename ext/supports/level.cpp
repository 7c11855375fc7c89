// Compiled once per SIMD level (VS_LEVEL); see setup.py.
#include "supports/norms.h"
#include "supports/component.h"

namespace VS_NS {
namespace {

int64_t padded(int64_t labels) {
    constexpr int64_t n = Vec<float>::N > 8 ? Vec<float>::N : 8;
    return (labels + n - 1) / n * n;
}

void exponentials(const double* scores, double shift, int64_t n, float* out) {
    exp_row(scores, shift, n, out);
}

void component(const Problem& p, const Table& t, const Answer& a, int64_t number, Space& space,
               vs::Control* control, bool caller) {
    Component(p, t, a, number, space, control, caller).run();
}

const vs::supports::Level kLevel = {padded,    exponentials, measure,
                                    component, one_message,  one_product};

}  // namespace

template <>
const vs::supports::Level* table<vs::supports::Level>() {
    return &kLevel;
}

}  // namespace VS_NS
