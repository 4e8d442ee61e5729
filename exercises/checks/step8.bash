# What the checks of step 8 share.
small+=(--hidden "32,40,24,36,28") # six layers
course_words+='|pipeline|stages'
errors=('waits in Send|A stage waits until another one receives. Does that one send, too, before it receives?'
    'waits in Recv|A stage waits until another one sends. Does that one receive, too, before it sends?')
