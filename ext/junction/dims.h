// Tables over sets of variables: which entry stands where.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "junction/few.h"
#include "junction/graph.h"

namespace vs::junction {

inline bool has(const Set& s, int32_t v) { return std::find(s.begin(), s.end(), v) != s.end(); }
inline bool within(const Set& a, const Set& b) {
    return std::all_of(a.begin(), a.end(), [&](int32_t v) { return has(b, v); });
}

// Where an entry stands: sum of stride * value over the variables, outermost first.
struct Dims {
    Set var;
    Strides stride;
    int64_t size = 1;

    int64_t stride_of(int32_t v) const {
        for (size_t i = 0; i < var.size(); ++i) {
            if (var[i] == v) return stride[i];
        }
        return 0;
    }
    Strides strides_of(const Set& vars) const {
        Strides r(vars.size());
        for (size_t i = 0; i < vars.size(); ++i) r[i] = stride_of(vars[i]);
        return r;
    }
};

// Joint settings of the variables.
inline double settings(const Domains& d, const Set& s) {
    double p = 1.0;
    for (int32_t v : s) p *= static_cast<double>(d.size(v));
    return p;
}
// The variables with more than one value left.
inline Set live(const Domains& d, const Set& s) {
    Set r;
    for (int32_t v : s) {
        if (d.size(v) > 1) r.push_back(v);
    }
    return r;
}
// The variables of `order` that are in `s`.
inline Set ordered(const Set& order, const Set& s) {
    Set r;
    for (int32_t v : order) {
        if (has(s, v)) r.push_back(v);
    }
    return r;
}
inline Dims dims_of(const Domains& d, const Set& order) {
    Dims r{order, Strides(order.size()), 1};
    for (size_t i = order.size(); i-- > 0;) {
        r.stride[i] = r.size;
        r.size *= d.size(order[i]);
    }
    return r;
}

// The offset of each setting of `vars`, the last one fastest, in a table; at(i, x): that of value
// number x of variable number i.
template <class At>
void each_offset(const Domains& d, const int32_t* vars, size_t n_vars, At&& at, Set* out) {
    int64_t size = 1;
    int32_t first = 0;
    for (size_t i = 0; i < n_vars; ++i) {
        size *= d.size(vars[i]);
        first += static_cast<int32_t>(at(i, 0));
    }
    out->resize(static_cast<size_t>(size));
    int32_t* const o = out->data();
    o[0] = first;
    int64_t done = 1;
    for (size_t i = n_vars; i-- > 0;) {  // settings of the later variables are there
        const int64_t n = d.size(vars[i]);
        const int64_t begin = at(i, 0);
        for (int64_t x = 1; x < n; ++x) {
            const int32_t add = static_cast<int32_t>(at(i, x) - begin);
            int32_t* to = o + x * done;
            for (int64_t j = 0; j < done; ++j) to[j] = o[j] + add;
        }
        done *= n;
    }
}

// The same in a table with these strides.
void offsets(const Domains& d, const Set& vars, const Strides& stride, Set* out);

}  // namespace vs::junction
