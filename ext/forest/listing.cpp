#include "forest/listing.h"

#include <algorithm>
#include <cmath>

#include "core/problem.h"
#include "forest/level.h"

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
    struct Job {
        const Rows& rows;
        F& f;
        int64_t step;
    } job{rows, f, std::max(int64_t{1}, 16384 / rows.K)};
    const auto piece = [](void* context, int64_t task, int) {
        const Job& j = *static_cast<Job*>(context);
        const int64_t last = std::min(j.rows.n, (task + 1) * j.step);
        for (int64_t i = task * j.step; i < last; ++i) {
            j.f(static_cast<const In*>(j.rows.at) + i * j.rows.K, i);
        }
    };
    pool.run_plan(Plan(label, (rows.n + job.step - 1) / job.step), piece, &job, threads, control);
}

// max |a - b|, four numbers at a time, which do not wait for one another.
template <class In>
double distance(const In* a, const In* b, int64_t K) {
    In most[4] = {};
    int64_t k = 0;
    const auto take = [&](int64_t i, int j) {
        const In d = std::fabs(a[i] - b[i]);
        most[j] = most[j] > d ? most[j] : d;
    };
    for (; k + 4 <= K; k += 4) {
        take(k, 0);
        take(k + 1, 1);
        take(k + 2, 2);
        take(k + 3, 3);
    }
    for (; k < K; ++k) take(k, 0);
    return static_cast<double>(std::max(std::max(most[0], most[1]), std::max(most[2], most[3])));
}

// The sum of [first, last), likewise.
template <class In>
double sum_of(const In* p, int64_t first, int64_t last) {
    double sum[4] = {};
    int64_t k = first;
    for (; k + 4 <= last; k += 4) {
        sum[0] += static_cast<double>(p[k]);
        sum[1] += static_cast<double>(p[k + 1]);
        sum[2] += static_cast<double>(p[k + 2]);
        sum[3] += static_cast<double>(p[k + 3]);
    }
    for (; k < last; ++k) sum[0] += static_cast<double>(p[k]);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
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

void distances(const PoolApi& pool, const Rows& rows, const void* others, const int32_t* label,
               int threads, double* out, double* rest, Control* control) {
    by_type(rows.dtype, [&](auto type) {
        using In = decltype(type);
        const auto f = [&](const In* p, int64_t i) {
            out[i] = distance(p, static_cast<const In*>(others) + i * rows.K, rows.K);
            rest[i] = 0.0;
            if (label[i] < 0) return;
            // Without the label: nothing cancels.
            const double other = sum_of(p, 0, label[i]) + sum_of(p, label[i] + 1, rows.K);
            const double lost = 1.0 + static_cast<double>(rows.K + 8) * 0x1p-52;
            rest[i] = other * lost / (other + static_cast<double>(p[label[i]]));
        };
        each_row<In>(pool, "distances", rows, threads, control, f);
    });
}

}  // namespace vs
