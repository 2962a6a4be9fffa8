"""Every surface for a few seconds, with the same inputs each time; and what once found something."""

import gc
import json
import logging
import random
import signal
from pathlib import Path

import pytest

from bench.fuzz import harness
from bench.fuzz.__main__ import main
from bench.fuzz.fuzz_cluster import SmallCluster
from bench.fuzz.harness import Finding, Surface, Tally, Target
from bench.fuzz.surfaces import SURFACES
from shared.errors import OperationalError

INPUTS = {
    "watch": 400, "messages": 400, "cel": 5_000, "configuration": 100, "command-line": 150,
    "kubeconfig": 200, "extenders": 80, "answers": 800, "endpoints": 800, "apiserver": 800,
}  # fmt: skip
BOMB = "{a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1], " + ", ".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
LEASE = b'lease HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"spec":"%b"}'
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "c", "interactiveMode": "Never"}


def test_nobody_keeps_a_cluster_that_is_gone() -> None:
    """A framework's plugins refer to all the rest: what is worked out for it goes with it. Else a run
    that starts cluster after cluster grows."""
    harness.tell(SURFACES["extenders"], [b"filter {}", b"preempt {}"], Tally())
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, SmallCluster)]


def kubeconfig(cluster: object, **user: object) -> bytes:
    content = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": cluster,
        "users": [{"name": "u", "user": user}],
    }
    return json.dumps(content).encode()


def cluster(**fields: object) -> list[dict[str, object]]:
    return [{"name": "c", "cluster": {"server": "https://h", **fields}}]


FOUND = [
    ("kubeconfig", kubeconfig(1)),
    ("kubeconfig", kubeconfig(cluster(extensions=1), exec=EXEC)),
    ("kubeconfig", kubeconfig(cluster(**{"certificate-authority-data": "é"}))),
    ("kubeconfig", kubeconfig(cluster(**{"certificate-authority-data": "/w=="}))),
    ("kubeconfig", kubeconfig(cluster(**{"certificate-authority-data": 5}))),
    (
        "kubeconfig",
        kubeconfig(
            cluster(**{"certificate-authority": 5}), exec={**EXEC, "provideClusterInfo": True}
        ),
    ),
    ("kubeconfig", kubeconfig(cluster(), exec={**EXEC, "env": True})),
    ("kubeconfig", kubeconfig(cluster(), tokenFile="a\0b")),
    ("kubeconfig", kubeconfig(cluster(), **{"client-certificate": "a\0b", "client-key": "k"})),
    ("kubeconfig", BOMB.encode() + b"}"),
    ("configuration", b'\n{"\\ud800": 1}'),
    (
        "configuration",
        b"\n" + BOMB.encode() + b", profiles: [{pluginConfig: [{name: X, args: *i}]}]}",
    ),
    ("configuration", b"\n&x [*x]"),
    (
        "configuration",
        b"\n{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, profiles:"
        b" [{plugins: {filter: {enabled: [{name: '%b'}]}}}]}" % (b"1" * 5_000),
    ),
    ("answers", LEASE % b"\xff"),
    ("answers", b'lease HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"metadata":[]}'),
    ("answers", LEASE % (b"[" * 5_000)),
]


@pytest.mark.parametrize("name", SURFACES)
def test_nothing_is_found(name: str) -> None:
    def is_over(tally: Tally, passed_s: float) -> bool:
        return tally.inputs_count >= INPUTS[name]

    tally = harness.run(name, SURFACES[name], 20_261, is_over)
    found = [each._replace(story=each.story[-3:]) for each in tally.findings.values()]
    # How long a turn takes is no matter of a machine that does other things too.
    assert [each for each in found if each.kind != "slow"] == []
    if name in ("watch", "messages", "kubeconfig", "configuration", "answers"):
        assert 0 < tally.refused_count < tally.inputs_count, "damaged enough, and not too much"


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found_once_is_refused(name: str, data: bytes) -> None:
    tally = Tally()
    with harness.limited():
        assert harness.tell(SURFACES[name], [data], tally) is None
    assert tally.refused_count == 1


# The harness ----------------------------------------------------------------------------------------


def surface(take: harness.Take) -> Surface:
    def story(rng: random.Random) -> harness.Story:
        return [rng.randbytes(3) for _ in range(5)]

    return Surface("a toy", story, lambda: Target(take))


def found_by(take: harness.Take) -> list[Finding]:
    def is_over(tally: Tally, passed_s: float) -> bool:
        return bool(tally.findings) or tally.inputs_count >= 200

    return list(harness.run("toy", surface(take), 0, is_over).findings.values())


def test_refusals_are_no_findings_and_all_else_is() -> None:
    def refuse(data: bytes) -> None:
        raise OperationalError("no")

    def fail(data: bytes) -> None:
        if data[0] > 250:
            raise KeyError("x")

    def live_through(data: bytes) -> None:
        try:
            fail(data)
        except KeyError:
            logging.getLogger("berth.toy").exception("lived through")

    def use_time(data: bytes) -> None:
        for _ in iter(int, 1):
            pass

    assert found_by(refuse) == []
    assert [each.kind for each in found_by(fail)] == [
        "KeyError in tests/properties/test_fuzz.py fail"
    ]
    assert [each.kind.partition(" in ")[0] for each in found_by(live_through)] == [
        "contained KeyError"
    ]
    harness_s, harness.ENDLESS_S = harness.ENDLESS_S, 0.2  # type: ignore[misc] # It is Final.
    try:
        assert [each.kind for each in found_by(use_time)[:1]] == [
            "endless in _EndlessError in tests/properties/test_fuzz.py use_time"
        ]
    finally:
        harness.ENDLESS_S = harness_s  # type: ignore[misc] # The same.


def test_what_a_process_dies_of_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SmallCluster()

    def fail(_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(cluster.scorer.loop, "run", fail)
    with pytest.raises(KeyError, match="x"):
        cluster.go_on(15.0)


def test_what_lies_between_two_turns_is_not_broken_off() -> None:
    with harness.limited():
        harness.tell(surface(lambda _: None), [b"x"], Tally())
        assert signal.getitimer(signal.ITIMER_PROF)[0] == 0.0


def test_memory_that_one_input_takes_is_found_whatever_was_taken_before() -> None:
    def take(data: bytes, bytes_count: int = harness.SPIKE_BYTES * 2) -> None:
        bytearray(bytes_count)[::4096] = b"x" * (bytes_count // 4096)

    take(b"", harness.SPIKE_BYTES * 3)
    assert [each.kind for each in found_by(take)][:1] == ["memory"]


def test_a_finding_is_made_short_written_and_told_again(tmp_path: Path) -> None:
    heard: list[bytes] = []

    def start() -> Target:
        heard.clear()

        def take(data: bytes) -> None:
            heard.append(data)
            if sum(b"x" in each for each in heard) == 2:
                raise ValueError("two")

        return Target(take)

    toy = Surface("a toy", lambda _: [b"a", b"bxb", b"c", b'{"k": "x", "l": [1]}', b"d"], start)
    tally = Tally()
    with harness.limited():
        found = harness.tell(toy, toy.story(random.Random(0)), tally)
    assert found is not None
    shorter = harness.shrunk(toy, found)
    assert shorter.story == [b"x", b'{"k": "x"}']
    assert harness.read_story(harness.written("toy", shorter)) == ("toy", shorter.story)


def test_a_finding_is_written_before_the_run_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []

    def take(data: bytes) -> None:
        heard.append(data)
        raise KeyboardInterrupt if len(heard) > 1 else ValueError

    monkeypatch.setattr("bench.fuzz.__main__.SURFACES", {"cel": surface(take)})
    with pytest.raises(KeyboardInterrupt):
        main(["cel", "--inputs", "10", "--output", str(tmp_path)])
    (path,) = tmp_path.iterdir()
    assert harness.read_story(path.read_text()) == ("cel", heard[:1])


def test_the_command_tells_a_story_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = Finding("k", "d", [FOUND[0][1]])
    path = tmp_path / "found.json"
    path.write_text(harness.written("kubeconfig", finding))
    assert main(["--replay", str(path), "--log"]) == 0
    assert "1 inputs: nothing found" in capsys.readouterr().out


def test_the_folder_for_findings_is_made_before_anything_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "findings"
    assert main(["cel", "--inputs", "1", "--output", str(folder)]) == 0
    assert folder.is_dir()
    (tmp_path / "file").touch()
    capsys.readouterr()
    assert main(["cel", "--inputs", "1", "--output", str(tmp_path / "file")]) == 2
    assert not capsys.readouterr().out, "nothing was begun"
