// From the number of an arithmetic to its domain.
#pragma once

#include "rows/linear.h"
#include "rows/log.h"
#include "rows/pack_table.h"

namespace VS_NS {

// Calls f with a null pointer of the arithmetic's type; kLinear32of64 has no such calls.
template <class F>
static VS_INLINE void with_arithmetic(int arithmetic, F f) {
    switch (arithmetic) {
        case vs::kLinear32:
            return f(static_cast<Linear<float, float>*>(nullptr));
        case vs::kLinear64:
            return f(static_cast<Linear<double, double>*>(nullptr));
        case vs::kLog:
            return f(static_cast<Log*>(nullptr));
    }
}

template <class D>
struct Type {
    using type = D;
};
template <class D>
struct Type<D*> {
    using type = D;
};
#define VS_DOMAIN(d) typename Type<decltype(d)>::type

}  // namespace VS_NS
