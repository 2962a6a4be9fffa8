"""Bounds: what is taken of input that anybody may have made, and what several processes agree on.

Each has its arithmetic beside it. What an algorithm needs for itself alone (a cache's size, the length
of a run) stays with it. Relations are asserted at import: what breaks one fails in every test.
"""

from typing import Final

PROCESSES_MAX: Final = 256
"""Scorers, and binders, of this host: twice the cores of a large machine. Workers of other hosts
have numbers from here on."""
POD_INITIAL_BACKOFF_S: Final = 1
POD_MAX_BACKOFF_S: Final = 10
"""podInitialBackoffSeconds and podMaxBackoffSeconds, unless the configuration says otherwise: between
two attempts of a pod that fails, the first time and at most (pkg/scheduler/apis/config/v1/defaults.go,
v1.36.2)."""
GRACE_S: Final = 30.0
"""From SIGTERM to SIGKILL: Kubernetes' terminationGracePeriodSeconds, unless a pod says otherwise."""
DRAIN_S: Final = 20.0
"""For bindings in flight after SIGTERM. One binding is one POST, and a GET where the answer was
ambiguous; the API server itself gives up a request well before this."""
CHILD_STOP_S: Final = 8.0
"""From SIGTERM to SIGKILL of a child. By then nothing is in flight; a binder writes conditions for
up to 3 s more, and the last Drain or report may linger up to 2 s in ZeroMQ. The rest is for a
machine that has other things to do."""
SILENCE_S: Final = 20.0
"""A child whose heartbeat does not move for so long, although it could, hangs, and is killed and
started again. The longest honest step between two beats: the imports of a start, 2 s; a copy of
1,000,000 nodes in a scorer, some seconds; a page of 500 objects of 1.5 MB in the adapter, as long."""
OWNER_SILENCE_S: Final = 60.0
"""The owner's turn is longer: a full snapshot of 1,000,000 nodes, a dump of all of them for people.
And its death costs more: the cluster is listed anew."""
LOOK_PERIOD_S: Final = 2.0
"""How often the supervisor looks at the heartbeats."""
QUIET_S: Final = 4.0
"""How often a process that has nothing to do says that it is there, to the supervisor and to the owner:
each wake costs about 0.3 ms of cold caches, and there are six processes."""
STATUS_PERIOD_S: Final = 10.0
"""How often the supervisor asks the owner how it is, for the service manager."""
API_REQUEST_S: Final = 30.0
"""A request to the API server that is not answered by then is given up, unless whoever sends it says
otherwise."""
BINDERS_AWAITED_S: Final = API_REQUEST_S + 1.0
"""How long a new owner waits for what binders have under way for the last one: until that is answered
or given up, and until one that hangs is killed."""

assert BINDERS_AWAITED_S > SILENCE_S + LOOK_PERIOD_S, "who hangs is killed before the owner lists"
assert DRAIN_S + CHILD_STOP_S < GRACE_S, "a drain must end before the machine's patience does"
assert SILENCE_S >= 10 * LOOK_PERIOD_S, "a few turns that came late must not kill a child"
assert SILENCE_S / 5 >= QUIET_S, "nor is anybody measured for having nothing to do"

# Pods, nodes and other objects, as people write them ----------------------------------------------

NESTING_MAX: Final = 10_000
"""Levels of JSON, as many as Go reads (`maxNestingDepth` in encoding/json/scanner.go): each takes 160
bytes of the stack at most, which has 8 MB."""
RESOURCES_MAX: Final = 256
"""That one pod may ask for, or one node have, beside cpu, memory and the like; nodes have about ten.
Each different one that a node has costs 16 bytes for every node, so many 20 MB at 5,000 nodes; and a
pod that fits nowhere is told the names of all that are missing."""
NODE_LABELS_MAX: Final = 1024
"""Of one node, likewise at 4 bytes each; nodes have about twenty."""
NODE_SHAPES_MAX: Final = 16_384
"""Nodes are often alike, and what is worked out of one shape is kept. So many are forgotten: at a
kilobyte or so each, 16 MB are kept for what may come again."""
NODES_MAX: Final = 1 << 26
PODS_MAX: Final = 1 << 30
"""Rows of a copy, far more than there ever are: whoever names more must not have room made for them."""
QUANTITY_DIGITS_MAX: Final = 400
"""Longest exponent shift and number of digits that are taken seriously; any real quantity is far
shorter, and without a bound "1e999999999" would fill the memory with zeros."""
FAULT_TEXT_LENGTH_MAX: Final = 500
"""Of what an exception says of an object, which may be the whole object."""

# CEL, as people write it in device classes and claims ---------------------------------------------

CEL_DEPTH_MAX: Final = 80
"""Nested expressions. cel-go takes 250; each costs a dozen frames of Python's stack here."""
CEL_CHAIN_MAX: Final = 250
"""Links of one chain (a.b.c, 1 + 2 + 3). Chains of && and || have no limit."""
CEL_DIGITS_MAX: Final = 400
"""Of a whole number, leading zeros included. Python refuses to read more than 4,300."""
CEL_EXPRESSIONS_MAX: Final = 1024
"""Compiled expressions that are kept. A cluster has a handful of classes."""
CEL_PATTERNS_MAX: Final = 64
"""Compiled regular expressions that are kept; RE2 takes up to 8 MiB for one (its default), most take
a few kB."""
CEL_ERROR_LETTERS_MAX: Final = 500
"""Of an error's text, which may have a value in it: it goes into a condition of the pod."""

# Files and options --------------------------------------------------------------------------------

CONFIG_BYTES_MAX: Final = 8 << 20
"""A configuration is a few kB; what is larger is another file."""
YAML_VALUES_MAX: Final = 100_000
"""Of one document: a few lines of aliases of aliases stand for more than there is memory for."""
PORT_MAX: Final = 65_535
MAX_IN_FLIGHT_MAX: Final = 1024
"""Bindings of one binder at once: each has a connection while it is under way."""
OPTION_SECONDS_MAX: Final = 86_400
"""A day: who waits for longer means something else."""
EXEC_OUTPUT_BYTES_MAX: Final = 256 * 1024
"""Of a plugin that is run for credentials: a token and two certificates have a few kB. So much YAML
is a few seconds' work."""
INSTANCE_LENGTH_MAX: Final = 128
"""Of the name of a berth in its lease, which anybody may have written."""

# What servers answer ------------------------------------------------------------------------------

ANSWER_HEAD_BYTES_MAX: Final = 1024 * 1024
"""Status line and headers. An API server sends half a kilobyte; whoever sends more than this is
none, and must not fill our memory."""
OBJECT_BYTES_MAX: Final = 64 * 1024 * 1024
"""An answer about one object, or a line of a watch. An API server takes 3 MB of JSON for one object
and etcd 1.5 MiB as a rule; stored in another encoding, it may come out some times as large."""
STREAM_BUFFER_BYTES_MAX: Final = 1024 * 1024
"""Body bytes that may wait for a stream's consumer before the socket is no longer read: a hundred of
the largest usual objects, and 20 watches together stay below 25 MB."""
LIST_BYTES_MAX: Final = 1024 * 1024 * 1024
"""An answer with many objects: 250,000 nodes or pods of 4 kB, should they be listed in one piece."""
PROXY_HEAD_BYTES_MAX: Final = 64 * 1024
"""Of a proxy's answer to CONNECT."""
API_ERROR_LENGTH_MAX: Final = 500
"""Of what a Status says: a refused object may stand in it whole, and it goes into logs and events."""
RETRY_AFTER_S_MAX: Final = 300.0
"""A server that wants to be left alone for longer is asked again all the same: what it says may be a
proxy's mistake, and pods wait."""
PROBLEMS_MAX: Final = 8
CONCERNS_MAX: Final = 40
PROBLEM_LENGTH_MAX: Final = 400
"""Problems with the way to a server that are told at a time, whom they concern (18 kinds, listed and
watched, and what binders write) and how long each is: together 12 kB of a child's page of notes."""

# What clients ask of the endpoints ----------------------------------------------------------------

REQUEST_HEAD_BYTES_MAX: Final = 16 * 1024
"""A request of a probe has 200 bytes; a token may have 2 KiB."""
ENDPOINT_CONNECTIONS_MAX: Final = 64
"""Beyond, the one that has waited longest for its client makes room: whoever holds connections
without a word keeps no probe out."""
HANDSHAKE_S_MAX: Final = 10.0
"""Of TLS, with a client that is there."""
IDLE_S_MAX: Final = 90.0
"""Prometheus keeps its connection between two scrapes, a minute as a rule."""
ACCESS_ANSWERS_MAX: Final = 1024
"""Of the API server, to who a token is and what that user may do: some tens of users, and whoever
tries tokens."""

# Messages between processes; a worker may be on another host --------------------------------------

BUFFER_COUNT_MAX: Final = 8192
"""Frames after the body. A snapshot has one for each column and dictionary: hundreds, not more."""
MESSAGE_BYTES_MAX: Final = 1 << 31
"""A peer that announces a larger frame is cut off. A full snapshot of 1,000,000 nodes is some
hundred MB in all, and each of its columns is a frame of its own."""
TICKET_MAX: Final = 1 << 53
"""Attempts of an owner's life: at 100,000 a second enough for 2,800 years."""
RUN_PODS_MAX: Final = 1 << 16
"""Equal pods that are told as one run: work that is only counted takes a worker 0.1 s for so many."""
WORD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of a frame from a worker of another host, whoever it is: the bound holds before the handshake too,
where only the handshake's time (30 s) bounds how many there are. The largest are questions for the
pods on 1,000,000 nodes (5 MB) and answers for 256 classes that fit nowhere (at 16 kB, 4 MB)."""
SUBSCRIPTION_BYTES_MAX: Final = 64 * 1024
"""The same for what subscribers may send: the name of a topic."""
HELD_MESSAGES_MAX: Final = 16
"""Of one scorer whose subscription is not in force yet. It says Hello and then waits."""
HELD_PEERS_MAX: Final = 1024
"""Scorers that died between Hello and subscription leave an entry; the oldest make room."""
SENT_AWAY_MAX: Final = 1024
"""Connections of workers that are not listened to any more; the oldest, which are closed by then,
are forgotten."""
WORKER_INDEX_MAX: Final = PROCESSES_MAX + (1 << 48)
"""Workers of other hosts choose one of 2^48 numbers after those of this host."""
WORKER_TEXT_LENGTH_MAX: Final = 1 << 15
"""As long as a condition may be: it goes into one."""
WORKER_NAME_LENGTH_MAX: Final = 1 << 10
"""Of a plugin or a label, of which the longest of ours has 40 letters."""
FAILURE_PLUGINS_MAX: Final = 1 << 8
"""Named in one failure; a profile has about twenty."""
MEASURED_SECONDS_MAX: Final = 1e9
"""Of what anybody measured between two heartbeats."""
COUNT_MAX: Final = 2**64 - 1
"""The largest number that a message can hold, of counts. Nobody counts so far; but others are
believed what they say they counted, and two of them may say that they did."""
EARLY_DELTAS_MAX: Final = 256
"""Deltas that overtook the full snapshot that a worker waits for. More are not kept: the gap is
noticed then, and another full snapshot asked for."""

# What waits or is remembered, whatever comes ------------------------------------------------------

BATCH_COUNT_MAX: Final = 1024
BATCH_BYTES_MAX: Final = 1024 * 1024
"""Of the adapter's messages. A batch is decoded by the owner in one go: at 3 us a message, 1024 of
them hold it up for 3 ms."""
BACKLOG_BYTES_MAX: Final = 2 * BATCH_BYTES_MAX
"""From here on sources are made to wait; one batch keeps the owner busy while the next is made. As
objects they take three times their bytes, and what a start has once taken for them stays with the
adapter: with 16 batches it was 5 MB more at 5,000 nodes."""
TOLD_OBJECTS_MAX: Final = 131_072
"""Of a kind, of which the adapter knows whether they say something new. At some 250 bytes: 33 MB."""
UNUSED_CLASSES_MAX: Final = 512
"""Classes of pods to be placed that stay known without any, and with them what scorers know of such
pods. At some 10 kB in each process: 5 MB; what is known of them is bounded there."""
SELECTED_KEYS_MAX: Final = 512
"""Labels by which somebody selects pods; clusters have some tens. For each new one all pods are looked
at (100,000 in 0.15 s), so with more all labels count as if they were such."""
SHARED_TEMPLATES_MAX: Final = 4096
"""Templates of pods, which those that are alike share. At some 400 bytes: 2 MB."""
RECENT_EVENTS_MAX: Final = 4096
RECENT_DELETIONS_MAX: Final = 4096
"""Of one kind, by which the adapter knows what it has told already. At some 200 bytes: 20 kinds
together below 20 MB, and most of them stay nearly empty."""
EVENT_COUNT_MAX: Final = 8192
"""Events kept for attempts under way: 2 s of a cluster with 4,000 bindings a second. An event holds
its objects, 1 to 10 kB: at most some 80 MB, while attempts last for seconds and events come fast."""
OWN_EVENT_COUNT_MAX: Final = 64
"""Updates of one pod during one attempt of it; more are not told apart."""
ORDERS_PER_BINDER_MAX: Final = 2048
"""What a binder is given beyond its requests in flight only waits there instead of here."""
VERDICTS_MAX: Final = 1 << 16
"""Conditions and events of pods that were not placed, kept while no binder is there: about 1 kB
each, with its message, so at most some 64 MB. The pod's next attempt says it again."""
VERDICT_LENGTH_MAX: Final = 1 << 15
"""Of the message in one; a longer one is cut, whoever wrote it. Kubernetes takes as much for a
condition."""
DEADLY_OBJECTS_MAX: Final = 64
"""Of so many objects that children died of is anything remembered; those that a child died of last.
As an option they take 700 bytes."""
CONDITIONS_MAX: Final = 65_536
"""Conditions remembered, at some 300 bytes: 20 MB."""
EVENT_SERIES_MAX: Final = 16_384
"""Events that may become a series, at some 500 bytes: 8 MB."""
METRIC_SERIES_MAX: Final = 1000
"""Of one metric. 12 extension points with 8 statuses each leave room for 10 profiles; a histogram
takes some 500 bytes, so that 20 metrics stay below 10 MB whatever other processes make up."""
LABEL_CHARACTERS_MAX: Final = 256
"""Of one label's value, in a series of a metric."""
LINES_BURST: Final = 100
LINES_PER_S: Final = 2.0
"""Of the log, of one event: 170,000 lines a day at worst, some 50 MB."""
LOGGED_EVENTS_MAX: Final = 1024
"""Events of the log that are told apart for that; texts that are never the same twice fill it."""
