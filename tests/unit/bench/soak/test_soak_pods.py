"""The kinds of pods add up, and a pod's name says what is expected of it."""

import orjson
import pytest

from bench.soak.soak_pods import KINDS, MAIN, NODE_CPU_MILLI, PodMaker, kind_of, node_body


def test_shares_are_of_one_whole() -> None:
    assert sum(kind.share for kind in KINDS.values()) == pytest.approx(1.0)


def test_a_seed_makes_the_same_pods_and_their_names_tell_their_kind() -> None:
    first, second = PodMaker(7), PodMaker(7)
    made = [first.next() for _ in range(3000)]
    assert made == [second.next() for _ in range(3000)]
    assert len({name for name, _ in made}) == 3000
    assert {kind_of(name) for name, _ in made} == set(KINDS.values())


def test_what_must_be_bound_fits_on_an_empty_node() -> None:
    maker = PodMaker(1)
    for name, body in (maker.next() for _ in range(2000)):
        (container,) = orjson.loads(body)["spec"]["containers"]
        cpu_milli = int(container["resources"]["requests"]["cpu"].removesuffix("m"))
        assert (cpu_milli <= NODE_CPU_MILLI) or not kind_of(name).must_bind


def test_the_name_of_a_node_is_its_host() -> None:
    node = orjson.loads(node_body("n-1", 1, MAIN))
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == node["metadata"]["name"] == "n-1"
