#include "junction/kept_parts.h"

#include <algorithm>

namespace vs::junction {

void KeptParts::keep(std::unique_ptr<SegmentTree> part, double bytes_left) {
    const int64_t n = static_cast<int64_t>(part->variables.size());
    if (n == 1 || variables_ + n > most_) return;
    if (bytes_ + part->bytes > std::min(kMostBytes, bytes_left)) return;
    variables_ += n;
    bytes_ += part->bytes;
    std::vector<int64_t> list = part->variables;
    kept_[std::move(list)] = std::move(part);
}

int KeptParts::solve(const TableSlices& from, const std::vector<int64_t>& list,
                     const std::vector<int64_t>& held, int threads, double bytes_left,
                     Control* control, std::unique_ptr<SegmentTree>* to) {
    const auto found = kept_.find(list);
    int status;
    if (found == kept_.end()) {
        to->reset(new SegmentTree);
        status = (*to)->solve(from, list, held, threads, bytes_left - bytes_, control);
    } else {
        *to = std::move(found->second);
        kept_.erase(found);
        variables_ -= static_cast<int64_t>(list.size());
        bytes_ -= (*to)->bytes;
        status = (*to)->solve_again(from, held, threads, bytes_left - bytes_, control);
    }
    if (status != SegmentTree::kTooMuch || kept_.empty()) return status;
    kept_.clear();
    bytes_ = 0.0;
    variables_ = 0;
    to->reset(new SegmentTree);
    return (*to)->solve(from, list, held, threads, bytes_left, control);
}

}  // namespace vs::junction
