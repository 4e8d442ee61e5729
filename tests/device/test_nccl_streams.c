// Tests of NCCL on streams: calls return at once, and run in the order of streams, events and
// calls.
#include "tests/device/nccl_ranks.h"

// Rank 0 calls first, and continues although the others have not called yet.
static void call_early(int rank) {
    ncclComm_t comm = join(3, rank);
    cudaStream_t stream = new_stream();
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
    OK(ncclCommDestroy(comm));
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
    OK(cudaStreamSynchronize(b));
    HOLDS(y, 5000, 4);
    if (rank == 0) {
        REFUSED(cudaErrorNotReady, cudaStreamQuery(a));
        post(DONE);
    } else {
        await(DONE, 1);
        OK(ncclAllReduce(x, x, 5000, ncclFloat, ncclSum, first, a));
    }
    OK(cudaStreamSynchronize(a));
    HOLDS(x, 5000, 2);
    OK(ncclCommDestroy(first));
    OK(ncclCommDestroy(second));
}

// The second sum uses the result of the first one, although its stream could start at once.
static void use_two_streams(int rank) {
    ncclComm_t comm = join(2, rank);
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
        OK(cudaStreamSynchronize(first));
        HOLDS(x, 5000, round ? 16 : 4);
    }
    OK(ncclCommDestroy(comm));
}

// One stream writes the data late, a second one sums them, and a third one reads them.
static void order_by_events(int rank) {
    ncclComm_t comm = join(2, rank);
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
    OK(ncclCommDestroy(comm));
}

// Queues more calls than a stream can hold, without synchronisation.
static void call_many_times(int rank) {
    enum { TIMES = 3000, PART = 10 };
    ncclComm_t comm = join(2, rank);
    float *x = new_floats(TIMES * PART, 1);
    for (int i = 0; i < TIMES; i++)
        OK(ncclAllReduce(x + i * PART, x + i * PART, PART, ncclFloat, ncclSum, comm, NULL));
    for (int i = 0; i < 10; i++)
        OK(ncclAllReduce(x, x, TIMES * PART, ncclFloat, ncclSum, comm, NULL));
    OK(cudaStreamSynchronize(NULL));
    HOLDS(x, TIMES * PART, 2048);
    OK(ncclCommDestroy(comm));
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        RANKS(calls_return_before_the_peers_call, 3, call_early, NULL),
        RANKS(communicators_do_not_wait_for_each_other, 2, use_two_communicators, NULL),
        RANKS(two_streams_keep_the_order_of_the_calls, 2, use_two_streams, NULL),
        RANKS(events_order_collectives, 2, order_by_events, NULL),
        RANKS(many_calls_can_be_queued, 2, call_many_times, NULL),
        RANKS(streams_between_hosts, 2, use_two_streams, "ab"),
        RANKS(streams_between_hosts, 2, use_two_communicators, "ab"),
        RANKS(streams_between_hosts, 2, call_many_times, "ab"),
        RANKS(streams_between_hosts, 3, call_early, "aab"),
    };
    set_up_ranks(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
