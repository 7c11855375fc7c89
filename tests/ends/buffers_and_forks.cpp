// Threads take and give buffers without end while the process forks; every child does likewise.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "pool/fork.h"
#include "pool/gate.h"
#include "pool/pool.h"
#include "pool/buffers.h"

static int visit(void*) { return 7; }

static void use(int n) {
    for (int i = 0; i < n; ++i) {
        vs::Buffer a = vs::take_buffer(1000 + i % 7), b = vs::take_buffer(5000);
        vs::give_back(a);
        vs::give_back(b);
        vs::Control control;
        int answer = 0;
        if (!vs::call_back(visit, nullptr, &control, &answer) || answer != 7) std::abort();
    }
}

int main(int, char** argv) {
    vs::survive_forks();
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
            while (!stop) use(100);
        });
    }
    int bad = 0;
    for (int i = 0; i < std::atoi(argv[1]); ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);  // a child that hangs is killed
            use(1000);
            vs::close_gate(10.0);  // nobody is inside: returns at once
            if (!vs::gate_closed()) _exit(1);
            _exit(vs::buffers_waiting() > vs::kBuffersKept);
        }
        int status = 0;
        waitpid(child, &status, 0);
        bad += status != 0;
    }
    stop = true;
    for (auto& t : threads) t.join();
    std::printf("%d\n", bad);
    return bad != 0;
}
