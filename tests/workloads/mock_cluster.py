"""librdkafka's mock cluster as a server: real brokers' protocol on loopback, without a JVM, with errors on demand.

Through ctypes, since confluent-kafka does not wrap it: the library that it ships has the whole mock API
(rdkafka_mock.h). Any client connects to `bootstrap` like to a real cluster.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from pathlib import Path

import confluent_kafka

PRODUCE, FETCH, LIST_OFFSETS, OFFSET_COMMIT = 0, 1, 2, 8
INIT_PRODUCER_ID, END_TXN = 22, 26
_PRODUCER = 0


def _library() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    (path,) = (package.parent / "confluent_kafka.libs").glob("librdkafka*.so*")
    library = ctypes.CDLL(str(path))
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, returns, takes in (
        ("rd_kafka_conf_new", pointer, []),
        ("rd_kafka_conf_set", number, [pointer, text, text, text, ctypes.c_size_t]),
        ("rd_kafka_new", pointer, [number, pointer, text, ctypes.c_size_t]),
        ("rd_kafka_destroy", None, [pointer]),
        ("rd_kafka_handle_mock_cluster", pointer, [pointer]),
        ("rd_kafka_mock_cluster_bootstraps", text, [pointer]),
        ("rd_kafka_mock_topic_create", number, [pointer, text, number, number]),
        ("rd_kafka_mock_topic_set_error", None, [pointer, text, number]),
        ("rd_kafka_mock_partition_set_leader", number, [pointer, text, ctypes.c_int32, ctypes.c_int32]),
        ("rd_kafka_mock_partition_delete_records", number, [pointer, text, ctypes.c_int32, ctypes.c_int64]),
        (
            "rd_kafka_mock_push_request_errors_array",
            None,
            [pointer, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)],
        ),
        ("rd_kafka_mock_clear_request_errors", None, [pointer, ctypes.c_int16]),
        ("rd_kafka_mock_coordinator_set", number, [pointer, text, text, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_down", number, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_up", number, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_broker_set_rtt", number, [pointer, ctypes.c_int32, number]),
        ("rd_kafka_mock_group_initial_rebalance_delay_ms", None, [pointer, ctypes.c_int32]),
        ("rd_kafka_mock_start_request_tracking", None, [pointer]),
        ("rd_kafka_mock_get_requests", ctypes.POINTER(pointer), [pointer, ctypes.POINTER(ctypes.c_size_t)]),
        ("rd_kafka_mock_request_api_key", ctypes.c_int16, [pointer]),
        ("rd_kafka_mock_request_destroy_array", None, [ctypes.POINTER(pointer), ctypes.c_size_t]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = returns, takes
    return library


class MockCluster:
    def __init__(self, brokers: int = 3) -> None:
        self._library = _library()
        message = ctypes.create_string_buffer(512)
        config = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(config, b"test.mock.num.brokers", b"%d" % brokers, message, 512)
        self._library.rd_kafka_conf_set(config, b"log_level", b"0", message, 512)
        self._handle = self._library.rd_kafka_new(_PRODUCER, config, message, 512)
        assert self._handle, message.value
        self._cluster = self._library.rd_kafka_handle_mock_cluster(self._handle)
        self.brokers = brokers
        self.bootstrap: str = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()

    def close(self) -> None:
        self._library.rd_kafka_destroy(self._handle)

    def create(self, topic: str, partitions: int) -> None:
        assert not self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, self.brokers)

    def refuse(self, topic: str, error: int) -> None:
        """Metadata of the topic says `error` from now on; 0: no longer."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), error)

    def lead(self, topic: str, partition: int, broker: int) -> None:
        assert not self._library.rd_kafka_mock_partition_set_leader(self._cluster, topic.encode(), partition, broker)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        assert not self._library.rd_kafka_mock_partition_delete_records(
            self._cluster, topic.encode(), partition, before
        )

    def answer(self, api_key: int, *errors: int) -> None:
        """The next requests with this key are answered by these errors (0: as usual), one each."""
        array = (ctypes.c_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, api_key, len(errors), array)

    def answer_as_usual(self, api_key: int) -> None:
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, api_key)

    def quick_groups(self) -> None:
        """A new group waits a moment for members, not three seconds."""
        self._library.rd_kafka_mock_group_initial_rebalance_delay_ms(self._cluster, 100)

    def coordinate(self, kind: str, key: str, broker: int) -> None:
        """`kind`: "group" or "transaction"."""
        assert not self._library.rd_kafka_mock_coordinator_set(self._cluster, kind.encode(), key.encode(), broker)

    def down(self, broker: int) -> None:
        self._library.rd_kafka_mock_broker_set_down(self._cluster, broker)

    def up(self, broker: int) -> None:
        self._library.rd_kafka_mock_broker_set_up(self._cluster, broker)

    def round_trip(self, milliseconds: int) -> None:
        for broker in range(1, self.brokers + 1):
            self._library.rd_kafka_mock_broker_set_rtt(self._cluster, broker, milliseconds)

    def count_requests(self) -> None:
        self._library.rd_kafka_mock_start_request_tracking(self._cluster)

    def requests(self) -> Counter[int]:
        """Requests seen since `count_requests`, by api key."""
        size = ctypes.c_size_t()
        array = self._library.rd_kafka_mock_get_requests(self._cluster, ctypes.byref(size))
        try:
            return Counter(self._library.rd_kafka_mock_request_api_key(array[i]) for i in range(size.value))
        finally:
            self._library.rd_kafka_mock_request_destroy_array(array, size.value)
