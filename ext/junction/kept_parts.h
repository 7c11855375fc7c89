// Parts of a graph whose trees are kept for when their variables are a segment again.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "junction/part.h"

namespace vs::junction {

class KeptParts {
  public:
    // n: variables of the graph.
    explicit KeptParts(int64_t n) : most_(kMost * n) {}

    double bytes() const { return bytes_; }

    // Keeps a part, unless it or all of them are too large; `room`: bytes that are left.
    void keep(std::unique_ptr<Part> part, double room) {
        const int64_t n = static_cast<int64_t>(part->variables.size());
        if (n == 1 || variables_ + n > most_) return;
        if (bytes_ + part->bytes > std::min(kRoom, room)) return;
        variables_ += n;
        bytes_ += part->bytes;
        std::vector<int64_t> list = part->variables;
        kept_[std::move(list)] = std::move(part);
    }

    // The part of some variables, solved; made where none is kept. As Part::solve; what is kept is
    // given up where there is no room beside it.
    int solve(const Slices& from, const std::vector<int64_t>& list,
              const std::vector<int64_t>& held, int threads, double room, Control* control,
              std::unique_ptr<Part>* to) {
        const auto found = kept_.find(list);
        int status;
        if (found == kept_.end()) {
            to->reset(new Part);
            status = (*to)->solve(from, list, held, threads, room - bytes_, control);
        } else {
            *to = std::move(found->second);
            kept_.erase(found);
            variables_ -= static_cast<int64_t>(list.size());
            bytes_ -= (*to)->bytes;
            status = (*to)->solve_again(from, held, threads, room - bytes_, control);
        }
        if (status != Part::kTooMuch || kept_.empty()) return status;
        kept_.clear();
        bytes_ = 0.0;
        variables_ = 0;
        to->reset(new Part);
        return (*to)->solve(from, list, held, threads, room, control);
    }

  private:
    // Variables of all of them, in graphs; bytes.
    static constexpr int64_t kMost = 32;
    static constexpr double kRoom = 64 << 20;

    std::map<std::vector<int64_t>, std::unique_ptr<Part>> kept_;
    int64_t most_, variables_ = 0;
    double bytes_ = 0.0;
};

}  // namespace vs::junction
