#include "pool/record.h"

#include <chrono>
#include <cstddef>
#include <numeric>
#include <utility>

namespace vs {
namespace {

thread_local std::shared_ptr<Recorder> t_recorder;

int64_t clock_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

template <class To, class From>
std::vector<To> copied(const From* from, int64_t n, To otherwise) {
    if (from != nullptr) return std::vector<To>(from, from + n);
    return std::vector<To>(static_cast<std::size_t>(n), otherwise);
}

}  // namespace

Record::Record(const Plan& p, int most_threads, bool runs)
    : label(p.label),
      round(p.round),
      threads(most_threads),
      kind(copied(p.kind, p.n, TaskKind::kPiece)),
      item(copied(p.item, p.n, Item{0, 0})),
      cost(copied(p.cost, p.n, 0.0)),
      waits(copied(p.waits, p.n, 0)),
      succ_ptr{0} {
    for (int64_t t = 0; p.item == nullptr && t < p.n; ++t) {
        item[static_cast<std::size_t>(t)] = {t, t + 1};
    }
    for (int64_t t = 0; t < p.n; ++t) {
        for (int64_t s = p.waits ? p.succ_ptr[t] : 0; p.waits && s < p.succ_ptr[t + 1]; ++s) {
            if (p.succ[s] < p.n) succ.push_back(p.succ[s]);
        }
        succ_ptr.push_back(static_cast<int64_t>(succ.size()));
    }
    if (p.order32 != nullptr) order.assign(p.order32, p.order32 + p.n_order);
    if (p.order64 != nullptr) order.assign(p.order64, p.order64 + p.n_order);
    if (!runs) return;
    start.assign(kind.size(), -1);
    measured.assign(kind.size(), -1);
    worker.assign(kind.size(), -1);
}

Recorder::Recorder(bool alone) : serial(alone), origin_(clock_now()) {}

void Recorder::add(std::shared_ptr<const Record> record) {
    const std::lock_guard<std::mutex> hold(lock_);
    records_.push_back(std::move(record));
}

std::shared_ptr<const Record> Recorder::get(int64_t i) const {
    const std::lock_guard<std::mutex> hold(lock_);
    return records_[static_cast<std::size_t>(i)];
}

int64_t Recorder::size() const {
    const std::lock_guard<std::mutex> hold(lock_);
    return static_cast<int64_t>(records_.size());
}

int64_t Recorder::now() const { return clock_now() - origin_; }

std::shared_ptr<Recorder> Recorder::set_current(std::shared_ptr<Recorder> next) {
    t_recorder.swap(next);
    return next;
}

void show_plan(const Plan& plan, int threads) {
    if (t_recorder) t_recorder->add(std::make_shared<const Record>(plan, threads, false));
}

}  // namespace vs
