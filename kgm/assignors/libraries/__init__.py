"""The assignors of client libraries other than Java's, by library and by the assignor name in groups.

Each library has its own file, which names the version and the type that it follows. Where a library follows the order
of Go maps, `GroupSpec.map_order` is one choice of that order, and records whether the choice matters.
`tests/assignors/libraries` compares each one with the library itself.

- `order`: how Go and Python sort; `leader_topics`: what both JavaScript libraries share; `python_sticky`: the algorithm
  of both Python libraries
- `franz_go_sticky`, `franz_go_repair`, `sarama_sticky`: the sticky assignors of the Go libraries; `cooperative`: what
  these share"""

from collections.abc import Callable
from typing import Final

from kgm.assignors.client import librdkafka
from kgm.assignors.contract import Assigned, GroupSpec
from kgm.assignors.libraries import (
    aiokafka,
    franz_go,
    franz_go_sticky,
    kafka_go,
    kafka_python,
    kafkajs,
    platformatic,
    sarama,
    sarama_sticky,
)
from kgm.model.client_library import (
    AIOKAFKA,
    FRANZ_GO,
    KAFKA_GO,
    KAFKA_PYTHON,
    KAFKAJS,
    LIBRDKAFKA,
    PLATFORMATIC,
    SARAMA,
)

Assignor = Callable[[GroupSpec], Assigned]

ASSIGNORS: Final[dict[str, dict[str, Assignor]]] = {
    LIBRDKAFKA: librdkafka.ASSIGNORS,
    FRANZ_GO: {
        "range": franz_go.assign_range,
        "roundrobin": franz_go.assign_round_robin,
        "sticky": franz_go_sticky.assign_sticky,
        "cooperative-sticky": franz_go_sticky.assign_cooperative_sticky,
    },
    SARAMA: {
        "range": sarama.assign_range,
        "roundrobin": sarama.assign_round_robin,
        "sticky": sarama_sticky.assign_sticky,
        "cooperative-sticky": sarama_sticky.assign_cooperative_sticky,
    },
    KAFKA_GO: {"range": kafka_go.assign_range, "roundrobin": kafka_go.assign_round_robin},
    KAFKAJS: {"roundrobin": kafkajs.assign_round_robin},
    PLATFORMATIC: {"roundrobin": platformatic.assign_round_robin},
    KAFKA_PYTHON: {
        "range": kafka_python.assign_range,
        "roundrobin": kafka_python.assign_round_robin,
        "sticky": kafka_python.assign_sticky,
        "cooperative-sticky": kafka_python.assign_cooperative_sticky,
    },
    AIOKAFKA: {
        "range": aiokafka.assign_range,
        "roundrobin": aiokafka.assign_round_robin,
        "sticky": aiokafka.assign_sticky,
    },
}
