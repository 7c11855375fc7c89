// Rows of the caller's arrays. An arithmetic that is fast knows their type; one that is slow anyway
// looks at it whenever it reads or writes, and is compiled once for both.
#pragma once

#include "core/problem.h"
#include "simd/level.h"

namespace VS_NS {

struct Either {
    using Value = double;
    struct Row {
        char* at = nullptr;
        bool single = false;

        explicit operator bool() const { return at != nullptr; }
        Row operator+(int64_t i) const { return {at + i * (single ? 4 : 8), single}; }
        double operator[](int64_t i) const {
            return single ? static_cast<double>(reinterpret_cast<const float*>(at)[i])
                          : reinterpret_cast<const double*>(at)[i];
        }
    };
    using Scores = Row;
    static Row row(void* p, int dtype) { return {static_cast<char*>(p), dtype == vs::kFloat32}; }
    static Scores scores(const void* p, int dtype) { return row(const_cast<void*>(p), dtype); }
};

template <class In>
struct One {
    using Value = In;
    using Row = In*;
    using Scores = const In*;
    static Row row(void* p, int) { return static_cast<In*>(p); }
    static Scores scores(const void* p, int) { return static_cast<const In*>(p); }
};

template <class In>
struct RowsOf : One<In> {};
template <>
struct RowsOf<Either> : Either {};

template <class In, class T>
static void put(In* row, int64_t i, T x) {
    row[i] = static_cast<In>(x);
}
static inline void put(Either::Row row, int64_t i, double x) {
    if (row.single) {
        reinterpret_cast<float*>(row.at)[i] = static_cast<float>(x);
    } else {
        reinterpret_cast<double*>(row.at)[i] = x;
    }
}
template <class In>
static const void* address(const In* row) {
    return row;
}
static inline const void* address(Either::Row row) { return row.at; }
static inline void row_prefetch_write(Either::Row, int) {}
static inline void row_prefetch_alone(Either::Row, int, bool) {}
static inline int row_argmax(Either::Row x, int K) {  // the lowest index of the largest value
    int best = 0;
    for (int k = 1; k < K; ++k) best = x[k] > x[best] ? k : best;
    return best;
}
static inline double row_max(Either::Row x, int K) { return x[row_argmax(x, K)]; }

}  // namespace VS_NS
