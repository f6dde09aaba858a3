from __future__ import annotations

import threading
from pathlib import Path

import pytest

from nodes.kafka import distribution, maven
from nodes.kafka.distribution import cached_versions, exclusive, fetch_jars, locate
from nodes.kafka.java import find_java
from nodes.system import SystemUnavailable


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "krash" / "kafka"


def quiet(_: str) -> None:
    pass


def jars(directory: Path, *names: str) -> None:
    (directory / "libs").mkdir(parents=True)
    for name in names:
        (directory / "libs" / name).write_bytes(b"jar")


def test_a_pom_pins_the_release_its_tools_and_the_logging_binding_of_its_time() -> None:
    old, new = maven.pom("3.4.1"), maven.pom("4.3.1")
    for text, version in ((old, "3.4.1"), (new, "4.3.1")):
        assert f"<artifactId>kafka_2.13</artifactId><version>{version}</version>" in text
        assert f"<artifactId>kafka-tools</artifactId><version>{version}</version><exclusions>" in text
    assert "slf4j-reload4j" in old
    assert "log4j-core" not in old
    assert "slf4j-reload4j" not in new
    assert "log4j-core" in new


def test_4_4_0_comes_without_the_tools_that_the_repository_lacks() -> None:
    text = maven.pom("4.4.0")
    assert "<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools" not in text
    assert "<exclusion><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId></exclusion>" in text


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (
            "\x1b[0m\x1b[0m[ERROR] Could not resolve: Could not find artifact org.apache.kafka:kafka_2.13:jar:9.9.9 in central",
            "there is no Apache Kafka 9.9.9 in the Maven repository; known to work: 3.2.3, 3.3.1, 3.3.2, 3.4.1, 3.6.2, 3.9.2, 4.3.1",
        ),
        (
            "[ERROR] x: Could not transfer artifact y: Unknown host z",
            "Maven cannot reach its repository, and Kafka 9.9.9 is not in the cache",
        ),
        ("[ERROR] No plugin found for prefix 'dependency'", "Maven cannot reach its repository"),
        ("[ERROR] Could not transfer a: Checksum validation failed, expected 1", "has a wrong checksum"),
        ("", "Maven could not fetch Kafka 9.9.9: Maven said nothing"),
    ],
)
def test_what_maven_says_becomes_what_to_do(output: str, said: str) -> None:
    assert said in maven.explain("9.9.9", output)


def test_without_maven_the_package_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(SystemUnavailable, match="apt-get install maven"):
        fetch_jars("3.4.1", progress=quiet)
    assert cached_versions() == []


def test_a_version_that_is_not_here_says_how_to_get_it(cache: Path) -> None:
    with pytest.raises(SystemUnavailable, match=r"krash kafka fetch 3\.4\.1"):
        locate("3.4.1")
    with pytest.raises(SystemUnavailable, match="'newest' is not a Kafka version"):
        locate("newest")


def test_a_fetch_that_fails_halfway_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(version: str, directory: Path, *, progress: object) -> None:
        jars(directory, "kafka_2.13-3.4.1.jar")
        raise SystemUnavailable("the network went away")

    monkeypatch.setattr(maven, "copy_jars", fail)
    with pytest.raises(SystemUnavailable, match="went away"):
        fetch_jars("3.4.1", progress=quiet)
    assert cached_versions() == []
    assert [path.name for path in cache.iterdir()] == [".3.4.1.lock"]


def test_two_that_fetch_the_same_release_do_it_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, go, said, calls = threading.Event(), threading.Event(), [], []

    def slow(version: str, directory: Path, *, progress: object) -> None:
        calls.append(version)
        inside.set()
        assert go.wait(60)
        jars(directory, "kafka_2.13-3.4.1.jar")

    def tell(text: str) -> None:
        said.append(text)
        go.set()

    monkeypatch.setattr(maven, "copy_jars", slow)
    first = threading.Thread(target=fetch_jars, args=("3.4.1",), kwargs={"progress": quiet})
    first.start()
    assert inside.wait(60)
    second = fetch_jars("3.4.1", progress=tell)
    first.join()
    assert calls == ["3.4.1"]
    assert said == ["another krash is fetching Kafka 3.4.1; waiting for it"]
    assert second.class_path() == "libs/kafka_2.13-3.4.1.jar"
    assert cached_versions() == ["3.4.1"]


def test_a_lock_goes_with_its_holder(cache: Path) -> None:
    with pytest.raises(ZeroDivisionError), exclusive("x", progress=quiet):
        raise ZeroDivisionError
    with exclusive("x", progress=pytest.fail):
        pass


def test_versions_are_listed_oldest_first(cache: Path) -> None:
    for version in ("4.3.1", "3.10.0", "3.9.2"):
        jars(cache / version, "kafka-clients.jar")
    (cache / "unpacked-0123" / "archives").mkdir(parents=True)
    (cache / ".4.0.0-abc" / "libs").mkdir(parents=True)
    assert cached_versions() == ["3.9.2", "3.10.0", "4.3.1"]


def test_an_unpacked_distribution_tells_its_version_and_what_is_derived_from_it_stays_apart(
    cache: Path, tmp_path: Path
) -> None:
    jars(tmp_path / "mine", "kafka_2.13-4.2.0-SNAPSHOT.jar", "a.jar")
    found = locate(str(tmp_path / "mine"))
    assert (found.version, found.unpacked) == ("4.2.0-SNAPSHOT", True)
    assert found.class_path() == "libs/a.jar:libs/kafka_2.13-4.2.0-SNAPSHOT.jar"
    (tmp_path / "mine" / "libs" / "a.jar").write_bytes(b"built again")
    assert locate(str(tmp_path / "mine")).derived != found.derived
    with pytest.raises(SystemUnavailable, match="is not an unpacked Kafka distribution"):
        locate(str(tmp_path))


def test_a_cache_home_that_is_not_absolute_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert distribution.cache_root() == Path.home() / ".cache" / "krash" / "kafka"


def test_java_home_comes_before_the_path_and_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    keys = []
    for version in ("21.0.1", "1.8.0_402"):
        (tmp_path / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        java = find_java()
        assert java is not None
        assert java.version == version
        keys.append(java.key)
    assert keys[0] != keys[1]
    assert java.major == 1
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert find_java() is None
