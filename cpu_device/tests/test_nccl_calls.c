// Tests of calls of NCCL: they return at once, and run in the order of streams, events and calls.
// Sends, receives and groups of calls.
#include "ranks.h"
#include <sched.h>
#include <sys/resource.h>

// Rank 0 calls first, and continues although the others have not called yet.
static void call_early(int rank) {
    float *a = new_floats(3000, 1);
    for (int which = 0; which < COLLECTIVES; which++) {
        float *b = new_floats(3000, 0);
        barrier(3);
        if (rank > 0)
            await(CALLED, which + 1);
        OK(call((enum collective)which, a, b, 1000, ncclFloat, ncclSum, 1, comm, stream));
        if (rank == 0) {
            // Send and Broadcast's root may be done early, the others cannot.
            REFUSED(cudaErrorNotReady, cudaStreamQuery(stream));
            post(CALLED);
        }
        OK(cudaStreamSynchronize(stream));
        OK(cudaStreamQuery(stream));
        if (which == ALL_REDUCE)
            HOLDS(b, 1000, 3);
        if (which == ALL_GATHER)
            HOLDS(b, 3000, 1);
        OK(cudaFree(b));
    }
}

// Rank 0 finishes on one communicator while its stream on the other waits for rank 1.
static void use_two_communicators(int rank) {
    ncclComm_t first = join(2, rank), second = join(2, rank);
    cudaStream_t a = new_stream(), b = new_stream();
    float *x = new_floats(5000, 1), *y = new_floats(5000, 2);
    if (rank == 1)
        await(CALLED, 1);
    else
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, first, a));
    post(CALLED);
    OK(ncclAllReduce(y, y, 5000, ncclFloat, ncclSum, second, b));
    GIVES(b, y, 5000, 4);
    if (rank == 0) {
        REFUSED(cudaErrorNotReady, cudaStreamQuery(a));
        post(DONE);
    } else {
        await(DONE, 1);
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, first, a));
    }
    GIVES(a, x, 5000, 2);
    OK(ncclCommDestroy(first));
    OK(ncclCommDestroy(second));
}

// The second sum uses the result of the first one, although its stream could start at once.
static void use_two_streams(int rank) {
    cudaStream_t a = new_stream(), b = new_stream();
    float *x = new_floats(5000, 1);
    for (int round = 0; round < 2; round++) {
        if (rank == round)
            hold(a, GO + round);
        // Which stream a rank takes is its own affair: only the order of the calls counts.
        cudaStream_t first = round == 1 && rank == 0 ? b : a, second = first == a ? b : a;
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, first));
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, second));
        barrier(2);
        REFUSED(cudaErrorNotReady, cudaStreamQuery(first));
        REFUSED(cudaErrorNotReady, cudaStreamQuery(second));
        barrier(2);
        if (rank == 0)
            post(GO + round);
        OK(cudaStreamSynchronize(second));
        GIVES(first, x, 5000, round ? 16 : 4);
    }
}

// One stream writes the data late, a second one sums them, and a third one reads them.
static void order_by_events(int rank) {
    cudaStream_t a = new_stream(), b = new_stream(), c = new_stream();
    cudaEvent_t filled, summed;
    float *x = new_floats(5000, 100), *late = new_floats(5000, (float)rank + 1), back[5000];
    OK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
    OK(cudaEventCreateWithFlags(&summed, cudaEventDisableTiming));
    hold(a, GO);
    OK(cudaMemcpyAsync(x, late, sizeof back, cudaMemcpyDeviceToDevice, a));
    OK(cudaEventRecord(filled, a));
    OK(cudaStreamWaitEvent(b, filled, 0));
    OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, comm, b));
    OK(cudaEventRecord(summed, b));
    OK(cudaStreamWaitEvent(c, summed, 0));
    OK(cudaMemcpyAsync(back, x, sizeof back, cudaMemcpyDeviceToHost, c));
    REFUSED(cudaErrorNotReady, cudaEventQuery(summed));
    barrier(2);
    post(GO);
    OK(cudaStreamSynchronize(c));
    OK(cudaEventQuery(summed));
    for (int i = 0; i < 5000; i++)
        CHECK(back[i] == 3, "element %d is %g", i, back[i]);
    OK(cudaEventDestroy(filled));
    OK(cudaEventDestroy(summed));
}

// Hosts that have often waited at once for what they queued run it themselves. Now one stays away.
static void stay_away(int rank) {
    float *x = new_floats(100, (float)rank);
    for (int i = 0; i < 100; i++) {
        OK(ncclAllReduce(x, x, 100, ncclFloat, ncclMax, comm, stream));
        OK(cudaStreamSynchronize(stream));
    }
    OK(ncclAllReduce(x, x, 100, ncclFloat, ncclSum, comm, stream));
    if (rank == 0)
        await(DONE, 1);
    GIVES(stream, x, 100, 2);
    post(DONE);
}

// Two ranks on one core yield it to each other. They also sleep now and then, because the system
// moves a thread to a free core when it wakes up.
static void share_a_core(int rank) {
    cpu_set_t core;
    int first = 0;
    struct rusage before, after;
    float *x = new_floats(256, (float)rank);
    sched_getaffinity(0, sizeof core, &core);
    while (!CPU_ISSET(first, &core))
        first++;
    CPU_ZERO(&core);
    CPU_SET(first, &core);
    sched_setaffinity(0, sizeof core, &core);
    getrusage(RUSAGE_THREAD, &before);
    for (int i = 0; i < 2000; i++) {
        OK(ncclAllReduce(x, x, 256, ncclFloat, ncclMax, comm, stream));
        OK(cudaStreamSynchronize(stream));
    }
    getrusage(RUSAGE_THREAD, &after);
    long slept = after.ru_nvcsw - before.ru_nvcsw;
    CHECK(slept >= 30, "slept only %ld times", slept);
}

// Queues more calls than a stream can hold, without synchronisation.
static void call_many_times(int rank) {
    enum { TIMES = 3000, PART = 10 };
    float *x = new_floats(TIMES * PART, 1);
    for (int i = 0; i < TIMES; i++)
        OK(ncclAllReduce(x + i * PART, x + i * PART, PART, ncclFloat, ncclSum, comm, NULL));
    for (int i = 0; i < 10; i++)
        OK(ncclAllReduce(x, x, TIMES * PART, ncclFloat, ncclSum, comm, NULL));
    GIVES(NULL, x, TIMES * PART, 2048);
}

// Sends, receives and groups.

static void send_in_groups(int rank) {
    int n = rank_count;
    enum { COUNT = 70001 };
    float *mine = new_floats(COUNT, (float)rank), *all = new_floats((size_t)n * COUNT, -1);
    // To the next, from the one before; each in an order of its own.
    OK(ncclGroupStart());
    if (rank % 2)
        OK(ncclSend(mine, COUNT, ncclFloat, (rank + 1) % n, comm, stream));
    OK(ncclRecv(all, COUNT, ncclFloat, (rank + n - 1) % n, comm, stream));
    if (rank % 2 == 0)
        OK(ncclSend(mine, COUNT, ncclFloat, (rank + 1) % n, comm, stream));
    OK(ncclGroupEnd());
    GIVES(stream, all, COUNT, (float)((rank + n - 1) % n));
    // Everybody to everybody, oneself included, in nested groups.
    OK(ncclGroupStart());
    for (int r = 0; r < n; r++) {
        OK(ncclGroupStart());
        OK(ncclSend(mine, COUNT, ncclFloat, r, comm, stream));
        OK(ncclRecv(all + r * COUNT, COUNT, ncclFloat, r, comm, stream));
        OK(ncclGroupEnd());
    }
    OK(ncclGroupEnd());
    OK(cudaStreamSynchronize(stream));
    for (int r = 0; r < n; r++)
        HOLDS(all + r * COUNT, COUNT, (float)r);
    // To oneself alone.
    set_floats(all, COUNT, -1);
    OK(ncclGroupStart());
    OK(ncclRecv(all, COUNT, ncclFloat, rank, comm, stream));
    OK(ncclSend(mine, COUNT, ncclFloat, rank, comm, stream));
    OK(ncclGroupEnd());
    GIVES(stream, all, COUNT, (float)rank);
}

// Several messages from one rank to another arrive in the order of the sends, in a group or not,
// while other calls run.
static void send_messages(int rank) {
    enum { MESSAGES = 20, LONGEST = 50000 };
    float *x = new_floats(MESSAGES * LONGEST, (float)-rank);
    for (int i = 0; i < MESSAGES && rank == 0; i++)
        set_floats(x + i * LONGEST, LONGEST, (float)i);
    for (int in_group = 0; in_group < 2; in_group++) {
        if (in_group)
            OK(ncclGroupStart());
        for (int i = 0; i < MESSAGES; i++) {
            size_t count = i % 4 ? (size_t)i : LONGEST - (size_t)i;
            if (rank == 0)
                OK(ncclSend(x + i * LONGEST, count, ncclFloat, 1, comm, NULL));
            else
                OK(ncclRecv(x + i * LONGEST, count, ncclFloat, 0, comm, NULL));
        }
        if (in_group)
            OK(ncclGroupEnd());
        OK(cudaStreamSynchronize(NULL));
        for (int i = 0; i < MESSAGES && rank == 1; i++) {
            int count = i % 4 ? i : LONGEST - i;
            HOLDS(x + i * LONGEST, (size_t)count, (float)i);
            HOLDS(x + i * LONGEST + count, (size_t)(LONGEST - count), -1);
            set_floats(x + i * LONGEST, LONGEST, -1);
        }
    }
}

static void call_several_in_a_group(int rank) {
    enum { COUNT = 3001 };
    cudaStream_t a = new_stream(), b = new_stream();
    float *sum = new_floats(COUNT, (float)rank), *most = new_floats(COUNT, (float)rank),
          *one = new_floats(COUNT, (float)rank), *all = new_floats(3 * COUNT, (float)rank),
          *part = new_floats(COUNT, 0), *sent = new_floats(COUNT, (float)rank);
    OK(ncclGroupStart());
    OK(ncclAllReduce(sum, sum, COUNT, ncclFloat, ncclSum, comm, a));
    OK(ncclReduce(most, most, COUNT, ncclFloat, ncclMax, 1, comm, a));
    OK(ncclBcast(one, COUNT, ncclFloat, 2, comm, a));
    OK(ncclGroupStart()); // the inner end launches nothing
    OK(ncclReduceScatter(all, part, COUNT, ncclFloat, ncclProd, comm, a));
    OK(ncclGroupEnd());
    OK(ncclGroupStart());
    OK(ncclGroupEnd());
    barrier(3);
    float first = -1;
    OK(cudaMemcpyAsync(&first, sum, sizeof first, cudaMemcpyDeviceToHost, a));
    OK(cudaStreamSynchronize(a));
    CHECK(first == (float)rank, "the group began before its end");
    barrier(3);
    if (rank == 0)
        OK(ncclSend(sent, COUNT, ncclFloat, 2, comm, b));
    if (rank == 2)
        OK(ncclRecv(sent, COUNT, ncclFloat, 0, comm, b));
    OK(ncclGroupEnd());
    OK(cudaStreamSynchronize(a));
    GIVES(b, sum, COUNT, 3);
    HOLDS(most, COUNT, rank == 1 ? 2 : (float)rank);
    HOLDS(one, COUNT, 2);
    HOLDS(part, COUNT, 0);
    HOLDS(sent, COUNT, rank == 1 ? 1 : 0);
}

// The sends and receives of a group may come before, between and after its collectives, and their
// places may differ between ranks.
static void mix_in_a_group(int rank) {
    for (int place = 0; place < 3; place++) {
        float *x = new_floats(100, (float)rank), *y = new_floats(300, 1);
        OK(ncclGroupStart());
        for (int i = 0; i < 3; i++) {
            if (rank == 0 && i == place)
                OK(ncclSend(x, 100, ncclFloat, 1, comm, NULL));
            float *part = y + 100 * i;
            OK(ncclAllReduce(part, part, 100, ncclFloat, i == 1 ? ncclProd : ncclSum, comm, NULL));
            if (rank == 1 && i == 2 - place)
                OK(ncclRecv(x, 100, ncclFloat, 0, comm, NULL));
        }
        OK(ncclGroupEnd());
        GIVES(NULL, x, 100, 0);
        HOLDS(y, 100, 2);
        HOLDS(y + 100, 100, 1);
        HOLDS(y + 200, 100, 2);
    }
}

// The ranks exchange more data than the buffers between them hold, on one stream per direction. All
// calls of a group run at once, on any streams.
static void send_on_two_streams(int rank) {
    enum { COUNT = 3000000 };
    cudaStream_t a = new_stream(), b = new_stream();
    float *sent = new_floats(COUNT, (float)rank), *received = new_floats(COUNT, -1);
    OK(ncclGroupStart());
    OK(ncclSend(sent, COUNT, ncclFloat, 1 - rank, comm, a));
    OK(ncclRecv(received, COUNT, ncclFloat, 1 - rank, comm, b));
    OK(ncclGroupEnd());
    OK(cudaStreamSynchronize(a));
    GIVES(b, received, COUNT, (float)(1 - rank));
}

TEST(groups_between_hosts) {
    for (int i = 0; i < PLACEMENTS; i++) {
        set_hosts(placements[i]);
        run_after(enter, (int)strlen(placements[i]), send_in_groups);
    }
    set_hosts("ab");
    run_after(enter, 2, send_messages);
    run_after(enter, 2, mix_in_a_group);
    set_hosts("aab");
    run_after(enter, 3, call_several_in_a_group);
}

int main(int argc, char **argv) {
    JOINED(calls_return_before_the_peers_call, 3, call_early, NULL);
    RANKS(communicators_do_not_wait_for_each_other, 2, use_two_communicators, NULL);
    JOINED(two_streams_keep_the_order_of_the_calls, 2, use_two_streams, NULL);
    JOINED(events_order_collectives, 2, order_by_events, NULL);
    JOINED(calls_need_no_host_that_waits, 2, stay_away, NULL);
    JOINED(ranks_leave_a_core_that_they_share, 2, share_a_core, NULL);
    JOINED(many_calls_can_be_queued, 2, call_many_times, NULL);
    JOINED(streams_between_hosts, 2, use_two_streams, "ab");
    RANKS(streams_between_hosts, 2, use_two_communicators, "ab");
    JOINED(streams_between_hosts, 2, call_many_times, "ab");
    JOINED(streams_between_hosts, 3, call_early, "aab");
    JOINED(groups_exchange_data, 2, send_in_groups, NULL);
    JOINED(groups_exchange_data, 3, send_in_groups, NULL);
    JOINED(groups_exchange_data, 4, send_in_groups, NULL);
    JOINED(messages_keep_their_order, 2, send_messages, NULL);
    JOINED(groups_hold_several_collectives, 3, call_several_in_a_group, NULL);
    JOINED(groups_hold_several_collectives, 2, mix_in_a_group, NULL);
    JOINED(groups_span_streams, 2, send_on_two_streams, NULL);
    return run_rank_tests(argc, argv);
}
