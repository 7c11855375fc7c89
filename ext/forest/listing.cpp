#include "forest/listing.h"

#include <algorithm>

#include "core/problem.h"
#include "forest/level.h"
#include "pool/blocks.h"

namespace vs {
namespace {

// The k largest entries so far, in order; a later one goes behind those that are as large.
template <class In>
void top_row(const In* p, int64_t K, int64_t k, int64_t* labels, In* values) {
    int64_t size = 0;
    for (int64_t l = 0; l < K; ++l) {
        if (size == k && p[l] <= values[k - 1]) continue;
        int64_t at = size < k ? size++ : k - 1;
        for (; at > 0 && values[at - 1] < p[l]; --at) {
            values[at] = values[at - 1];
            labels[at] = labels[at - 1];
        }
        values[at] = p[l];
        labels[at] = l;
    }
}

// f(row, its number) for each row, as one task for some 16,384 numbers.
template <class In, class F>
void each_row(const PoolApi& pool, const char* label, const Rows& rows, int threads,
              Control* control, F f) {
    const int64_t step = std::max(int64_t{1}, 16384 / rows.K);
    run_blocks(pool, label, rows.n, step, threads, control, [&](int64_t i, int64_t last) {
        for (; i < last; ++i) f(static_cast<const In*>(rows.at) + i * rows.K, i);
    });
}

template <class F>
void by_type(int dtype, F f) {
    if (dtype == kFloat32) return f(float{});
    f(double{});
}

}  // namespace

void count_listed(const PoolApi& pool, const Rows& rows, double least, int threads, int64_t* start,
                  Control* control) {
    start[0] = 0;
    by_type(rows.dtype, [&](auto type) {
        using In = decltype(type);
        const auto f = [&](const In* p, int64_t i) {
            start[i + 1] =
                level().list_row(rows.dtype, p, rows.K, least, nullptr, nullptr, nullptr);
        };
        each_row<In>(pool, "count listed", rows, threads, control, f);
    });
    for (int64_t i = 0; i < rows.n; ++i) start[i + 1] += start[i];
}

void list(const PoolApi& pool, const Rows& rows, double least, int threads, const int64_t* start,
          int32_t* labels, void* values, double* unlisted, Control* control) {
    by_type(rows.dtype, [&](auto type) {
        using In = decltype(type);
        const auto f = [&](const In* p, int64_t i) {
            level().list_row(rows.dtype, p, rows.K, least, labels + start[i],
                             static_cast<In*>(values) + start[i], unlisted + i);
        };
        each_row<In>(pool, "list", rows, threads, control, f);
    });
}

void top(const PoolApi& pool, const Rows& rows, int64_t k, int threads, int64_t* labels,
         void* values, Control* control) {
    by_type(rows.dtype, [&](auto type) {
        using In = decltype(type);
        const auto f = [&](const In* p, int64_t i) {
            top_row(p, rows.K, k, labels + i * k, static_cast<In*>(values) + i * k);
        };
        each_row<In>(pool, "top", rows, threads, control, f);
    });
}

void compare(const PoolApi& pool, const Rows& rows, const int64_t* owner, const Comparison& c,
             int threads, Control* control) {
    by_type(rows.dtype, [&](auto type) {
        using In = decltype(type);
        const auto f = [&](const In* p, int64_t i) {
            level().compare(rows.dtype, p, rows.K, c, i, 1, owner != nullptr ? owner[i] : i, -1.0);
        };
        each_row<In>(pool, "compare", rows, threads, control, f);
    });
}

}  // namespace vs
