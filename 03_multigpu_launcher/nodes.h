// The launchers of several nodes agree here. Each sends its state in datagrams, again and again,
// and node 0 answers with an order for all. So a lost datagram does no harm, as the next one
// repeats it, and silence means that a node is gone. With a single node, node 0 sends nothing, and
// the rest is the same.
#pragma once
#include <stdint.h>

enum { LOST = 8 }; // seconds of silence after which a node is lost

enum state { IDLE, RUNNING, STOPPING, FAILED, DONE, GONE }; // of the ranks of a node
enum order { STOP, START, END }; // START: attempt order_attempt, if it has not started yet

struct message { // a node with another byte order takes magic for a stranger's
    uint32_t magic;
    int32_t node, nnodes, nproc, max_restarts, pid; // of the launcher
    int32_t state, attempt;       // of the attempt that was started last, -1: none
    int32_t final;                // 1: no restart
    int32_t order, order_attempt; // of node 0, or the last that another node has heard
    int32_t code;                 // to exit with at the END
    char run_id[64];              // empty until node 0 has told it
};

extern struct message *me, *boss; // what this launcher sends, and the last message of node 0
extern int nodes_socket;          // to poll

// Sets *me, which the launcher updates from then on. A run with an empty run_id gets a name.
void join_nodes(int node, int nnodes, int nproc, int max_restarts, const char *run_id);

// Opens nodes_socket. host and port are those of node 0, which replaces port 0 by a free one. A
// failure ends the program.
void open_port(const char *host, long *port);

// Sends *me to node 0, or from node 0 to all others.
void send_message(void);

// Takes note of all messages that have arrived. Ends the program if node 0 has other options.
void receive_messages(void);

// On node 0: sets the order, from the states of all nodes. A new attempt waits for all nodes, at
// most join_timeout seconds.
void decide(double join_timeout);

// Returns the seconds since the last message of node 0, 0 on node 0.
double boss_silence(void);

// Prints for which nodes the launcher waits before it can start ranks: after 5 s, then every 30 s.
void report_wait(const char *host, long port, double join_timeout);

// Returns 1 if the order is END, and every node that is not lost knows it.
int is_over(void);
