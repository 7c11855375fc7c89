// Compiled once per SIMD level (VS_LEVEL); see setup.py.
#include "higher/level.h"

#include "higher/segment_rows.h"

namespace VS_NS {
namespace {

int64_t padded(int64_t labels) {
    constexpr int64_t n = Vec<double>::N;
    return (labels + n - 1) / n * n;
}

void exponentials(const double* x, double shift, int64_t n, int64_t np, double* out) {
    using V = Vec<double>;
    const V taken = V::set1(shift), least = V::set1(vs::higher::kLeastTableLog);
    for (int64_t k = 0; k < np; k += V::N) {
        const int64_t left = n - k;
        const V own = left >= V::N ? V::load(x + k)
                      : left > 0   ? V::load_part(x + k, static_cast<int>(left), -INFINITY)
                                   : V::set1(-INFINITY);
        exp_above(least, own - taken).store(out + k);
    }
}

int64_t second_space(const Job& job, const int64_t* lengths, int count) {
    return SecondPass::space(job, lengths, count);
}
int64_t segment_space(const Job& job, int64_t length) {
    return SegmentPass::space(job.model, job.packed.kp, length, job.ask.entropy != nullptr);
}

void second(const Job& job, Group* group, double* expected, double* space, bool caller) {
    SecondPass(job, group, space).run(expected, caller);
}
void segments(const Job& job, Segments* s, double* expected, double* space, bool caller) {
    SegmentPass(job, s, space).run(expected, caller);
}
void second_best(const Job& job, Group* group, double* space, bool caller) {
    SecondPass(job, group, space).run_best(caller);
}
void segments_best(const Job& job, Segments* s, double* space, bool caller) {
    SegmentPass(job, s, space).run_best(caller);
}

const vs::higher::Level kLevel = {padded, exponentials, second_space, segment_space,
                                  second, segments,     second_best,  segments_best};

}  // namespace

template <>
const vs::higher::Level* table<vs::higher::Level>() {
    return &kLevel;
}

}  // namespace VS_NS
