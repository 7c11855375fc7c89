// Sums over the trees of several sentences side by side, as long as each wants some.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parser/worker.h"

namespace vs::parser {

class Abreast {
  public:
    struct Slot {
        Worker* worker = nullptr;  // of a sentence that wants a tree to be summed up, or none
        int64_t sentence = 0;
        Memory memory;
        std::vector<double> beliefs;
    };

    explicit Abreast(const Trees& trees)
        : trees_(trees),
          slots_(trees.kind == dependency::Kind::kProjective ? at(trees.api->lanes()) : 1) {}

    // start(slot): puts the next sentence there that wants a sum; false: there is none. Sentences
    // of about one length should follow each other. resume(slot, log_z): whether it wants another
    // one. `spans`: joints may be asked of the sums.
    template <class Start, class Resume>
    void run(bool spans, const Start& start, const Resume& resume) {
        for (bool more = true;;) {
            busy_.clear();
            for (Slot& slot : slots_) {
                if (!slot.worker && more) more = start(&slot);
                if (slot.worker) busy_.push_back(&slot);
            }
            if (busy_.empty()) return;
            sum(spans);
            for (size_t i = 0; i < busy_.size(); ++i) {
                if (!resume(busy_[i], log_z_[i])) busy_[i]->worker = nullptr;
            }
        }
    }

  private:
    void sum(bool spans) {
        dependency::Sentence sentences[dependency::kMostLanes];
        dependency::Arcs arcs[dependency::kMostLanes];
        double* scratch[dependency::kMostLanes];
        int64_t longest = 0;
        for (size_t i = 0; i < busy_.size(); ++i) {
            const Worker& w = *busy_[i]->worker;
            sentences[i] = w.tree();
            arcs[i] = w.answers();
            scratch[i] = busy_[i]->memory.of(trees_, sentences[i].n);
            longest = std::max(longest, sentences[i].n);
        }
        const auto size = at(trees_.api->sum_several_size(trees_.kind, longest));
        if (shared_.size() < size) shared_.resize(size);
        trees_.api->sum_several(trees_.kind, sentences, arcs, static_cast<int64_t>(busy_.size()),
                                scratch, spans, sums_, log_z_, shared_.data());
        for (size_t i = 0; i < busy_.size(); ++i) busy_[i]->worker->tell(sums_[i]);
    }

    const Trees trees_;
    std::vector<Slot> slots_;
    std::vector<Slot*> busy_;
    std::vector<double> shared_;
    dependency::Sums sums_[dependency::kMostLanes];
    double log_z_[dependency::kMostLanes] = {};
};

}  // namespace vs::parser
