// What lanes of a pass have met on the way, and whether their answers can be trusted. As rows of
// Exact say it; but sums over positions are added up in another order here, so that what is near a
// bound is left to those.
#pragma once

#include <cmath>

#include "forest/path_exact.h"

namespace VS_NS {

template <class D>
struct LaneTrust {
    using T = typename D::T;
    static constexpr int N = Vec<T>::N;

    bool well[N], lost[N];          // all went well; this arithmetic is not good enough
    T least[N], most[N], added[N];  // least mass; largest, all that floors added

    void begin() {
        for (int r = 0; r < N; ++r) {
            well[r] = true;
            lost[r] = false;
            least[r] = most[r] = added[r] = T(0);
        }
    }
    void begin_own(int r) {
        least[r] = static_cast<T>(INFINITY);
        most[r] = added[r] = T(0);
    }
    // After the messages of a direction; `lowest`: the least of what scaling divided them by.
    void scaled(int r, T lowest) {
        lost[r] |= !(exponent_of(lowest) > D::kLowest);
        well[r] = well[r] && !lost[r];
    }
    // After the marginals.
    void met(int r) {
        const double mass = static_cast<double>(least[r]), here = static_cast<double>(most[r]),
                     all = static_cast<double>(added[r]);
        if (!(mass > 0.0)) {  // forbidden, perhaps
            well[r] = false;
        } else if (sizeof(T) == 8) {
            see(r, mass >= Floor<double>::kTrust, mass < Floor<double>::kTrust);
        } else {
            using F = Floor<float>;
            see(r, here <= kNearBound * F::kTolerance && all <= kNearBound * F::kMostAdded,
                kNearBound * here > F::kTolerance || kNearBound * all > F::kMostAdded);
        }
    }

  private:
    void see(int r, bool good, bool bad) {
        well[r] = well[r] && good;
        lost[r] = lost[r] || bad;
    }
};

}  // namespace VS_NS
