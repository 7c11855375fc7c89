#include "parser/class_weights.h"

#include "core/large_pages.h"

namespace vs::parser {

ClassWeights::ClassWeights(const Templates& templates, Kind kind, const float* weights)
    : set_(templates.sets[kind == Kind::kPruner ? 0 : static_cast<size_t>(kind)]),
      weights_(weights +
               templates.line_at[static_cast<size_t>(&set_ - templates.sets.data())] * kSlots),
      classes_(classes_of(kind)) {}

void ClassWeights::make() {
    std::call_once(made_, [&] {
        const auto classes = static_cast<int64_t>(classes_.size());
        const int64_t count = int64_t{set_.lines} * classes;
        sums_.reset(new float[at(count)]);
        prefer_large_pages(sums_.get(), count * static_cast<int64_t>(sizeof(float)));
        for (int64_t t = 0; t < set_.size(); ++t) {
            const int64_t lines = int64_t{set_.mask[at(t)]} + 1;
            const float* line = weights_ + int64_t{set_.base[at(t)]} * kSlots;
            float* to = sums_.get() + int64_t{set_.base[at(t)]} * classes;
            for (int64_t i = 0; i < lines; ++i, line += kSlots) {
                for (int64_t c = 0; c < classes; ++c) {
                    const Slots& s = classes_[at(c)];
                    to[c * lines + i] = line[0] + line[s.a] + line[s.b];
                }
            }
        }
    });
}

}  // namespace vs::parser
