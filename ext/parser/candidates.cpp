#include "parser/candidates.h"

#include <algorithm>
#include <functional>

#include "parser/bounds.h"

namespace vs::parser {

void Candidate::weigh() { gain = parser::gain(p, q, theta); }

void Candidates::clear() {
    siblings.clear();
    grandparents.clear();
}

void Candidates::fit(size_t kept) {
    for (auto* list : {&siblings, &grandparents}) {
        if (list->capacity() > std::max(kept, 4 * list->size())) list->shrink_to_fit();
    }
}

template <class Drop>
void Candidates::drop(const Drop& dropped) {
    for (auto* list : {&siblings, &grandparents}) {
        size_t kept = 0;
        for (Candidate& c : *list) {
            if (!dropped(c)) (*list)[kept++] = c;
        }
        list->resize(kept);
    }
}

void Candidates::read_gains() {
    gains_.clear();
    for (const auto* list : {&siblings, &grandparents}) {
        for (const Candidate& c : *list) gains_.push_back(c.gain);
    }
}

void Candidates::keep_above(double epsilon) {
    drop([&](const Candidate& c) { return !(c.gain > epsilon); });
}

void Candidates::keep_largest(int64_t m) {
    if (m >= size()) return;
    if (m <= 0) return clear();
    read_gains();
    std::nth_element(gains_.begin(), gains_.begin() + (m - 1), gains_.end(), std::greater<>());
    const double edge = gains_[at(m - 1)];
    int64_t ties = m;
    for (const double g : gains_) ties -= g > edge;
    drop([&](const Candidate& c) { return c.gain < edge || (c.gain == edge && --ties < 0); });
}

int64_t Candidates::smallest_within(double total) {
    read_gains();
    std::sort(gains_.begin(), gains_.end());
    int64_t count = 0;
    for (double spent = 0.0; count < size(); ++count) {
        spent += gains_[at(count)];
        if (spent > total) break;
    }
    return count;
}

}  // namespace vs::parser
