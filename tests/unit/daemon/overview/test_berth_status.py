"""What people are told of how a berth is."""

from daemon.overview.overview import problem_text
from shared.kube.connection_problems import Problem


def test_people_are_told_in_one_line() -> None:
    problem = Problem("403", "grant it", ["create pods/binding"], 10.0, 20.0, 3)
    told = "create pods/binding: 403 (3 times, last 5 s ago); grant it"
    assert problem_text(problem, 25.0) == told
