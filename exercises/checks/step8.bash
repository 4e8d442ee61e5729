# What the checks of step 8 share.
small+=(--hidden "32,40,24,36,28") # six layers
course_words+='|pipeline|stages'
errors=('waits in Send|A stage waits until another one receives. Does that one send, too, before it receives?'
    'waits in Recv|A stage waits until another one sends. Does that one receive, too, before it sends?')

# one_group_an_exchange: with 2 stages and 4 micro-batches in 1F1B, each stage sends or receives 5 times in each of 20 training steps.
one_group_an_exchange() {
    must_run 2 --micro-batches 4
    expect_calls ncclGroupStart - $((20 * 2 * 5)) 'one group for each exchange' \
        'Transfers outside of a group, or in two groups, run one after the other. In one group, a link carries data in' \
        'both directions at the same time.'
}
