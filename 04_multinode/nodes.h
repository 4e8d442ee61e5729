// The messages between the launchers of several nodes. Each launcher sends its state to node 0
// again and again, as UDP datagrams, and node 0 sends an order to all. If a datagram is lost, the
// next one repeats it. If a node is silent for long, it is lost. launch.c decides what to do.
#pragma once
#include "03_multigpu_launcher/local_ranks.h"
#include "common/base/options.h"
#include <stdint.h>

enum { LOST = 8 }; // seconds of silence after which a node is lost

// What node 0 orders all nodes to do. START: start attempt order_attempt, unless it has started.
enum order { STOP, START, END };

struct node_message {
    uint32_t magic; // the same for all launchers with this byte order
    int32_t node, nnodes, nproc, max_restarts, pid; // pid: of the launcher
    // After the start, only launch.c changes these.
    struct local_ranks ranks;     // of this node
    int32_t gone;                 // 1: the launcher has ended
    int32_t order, order_attempt; // of node 0; other nodes repeat the last order they have received
    int32_t code;                 // exit code of the launchers, with the order END
    char run_id[64];  // empty until node 0 has sent it, and in an answer to another run's launcher
    char reason[128]; // names the launcher that got a signal; node 0 tells all others
};

extern struct node_message *me, *node0; // the message of this launcher, and the last one of node 0
extern char node0_at[128];              // for messages: the address and the port of node 0

extern const struct option_spec node_option_specs[]; // the options for several nodes

// Sets *me from launch_opt. A run without a name gets one.
void join_nodes(void);

// Opens the port at all addresses of launch_opt, which are those of node 0. Waits if no name server
// knows them yet. Returns a descriptor that becomes readable when a message arrives. A failure ends
// the program.
int open_port(void);

// Sends *me to node 0, or from node 0 to all others.
void send_message(void);

// Receives all messages that have arrived. Ends the program if node 0 has other options or another
// run_id.
void receive_messages(void);

const struct node_message *message_of(int node);

// Returns 1 if the launcher of a node is silent or gone.
int is_lost(int node);

// On node 0: returns the number of a lost node, or 0 if there is none.
int find_lost_node(void);

// Returns the seconds since the last message of node 0 (0 on node 0).
double node0_silence(void);

// Returns the seconds that are left of --join-timeout for lost nodes (on node 0), or for node 0.
double join_time_left(void);

// If the launcher waits for other nodes, prints which ones: after 5 s, and then every 30 s.
void report_wait(void);
