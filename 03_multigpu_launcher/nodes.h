// The launchers of several nodes agree on what to do. Each launcher sends its state to node 0 again
// and again, as UDP datagrams, and node 0 sends an order to all. If a datagram is lost, the next
// one repeats it. If a node is silent for long, it is lost. A single node obeys its own orders.
#pragma once
#include <stdint.h>

enum { LOST = 8 }; // seconds of silence after which a node is lost

enum state { IDLE, RUNNING, STOPPING, FAILED, DONE, GONE }; // of the ranks of a node
enum order { STOP, START, END }; // START: attempt order_attempt, if it has not started yet

struct message {
    uint32_t magic; // the same for all launchers with this byte order
    int32_t node, nnodes, nproc, max_restarts, pid; // pid: of the launcher
    int32_t state, attempt;       // of the ranks, and the attempt that started last, -1: none
    int32_t final;                // 1: this node allows no restart
    int32_t order, order_attempt; // of node 0; other nodes repeat the last order they have received
    int32_t code;                 // exit code of the launchers, with the order END
    char run_id[64];  // empty until node 0 has sent it, and in an answer to another run's launcher
    char reason[128]; // names the launcher that got a signal; node 0 tells all others
};

extern struct message *me, *node0; // the message of this launcher, and the last one of node 0
extern int nodes_socket;           // for poll

// Sets *me, which the launcher then keeps up to date. A run with an empty run_id gets a name.
void join_nodes(int node, int nnodes, int nproc, int max_restarts, const char *run_id);

// Opens nodes_socket. host and port: of node 0. Node 0 sets port 0 to a free port. A failure ends
// the program.
void open_port(const char *host, long *port);

// Sends *me to node 0, or from node 0 to all others.
void send_message(void);

// Receives all messages that have arrived. Ends the program if node 0 has other options or another
// run_id.
void receive_messages(void);

// On node 0: sets the order from the states of all nodes. A new attempt waits for all nodes, for at
// most join_timeout seconds.
void decide(double join_timeout);

// Returns the seconds since the last message of node 0 (0 on node 0).
double node0_silence(void);

// If the launcher waits for other nodes, prints which ones: after 5 s, and then every 30 s.
void report_wait(const char *host, long port, double join_timeout);

// Returns 1 if the order is END, and every node that is not lost knows it.
int is_over(void);
