"""What the processes of one berth are started with."""

import zlib
from math import inf
from pathlib import Path

import msgspec
import pytest

from shared import exit_codes
from shared.child_plan import (
    PLAN_VERSION,
    BindingPlan,
    ChildPlan,
    ProfileBinding,
    child_start,
    read_plan,
)
from shared.clock import SystemClock
from shared.errors import ConfigurationError
from shared.extenders.extender_config import ExtenderConfig, ExtenderTls
from shared.in_hand import option_of
from shared.runtime_options import EndpointOptions, LeaderElection, RuntimeOptions

WHOLE = ChildPlan(
    options=RuntimeOptions(
        server="http://s",
        kubeconfig="/k",
        config="/c",
        runtime_dir="/d",
        workers=2,
        seed=2**63 - 1,
        feature_gates="A=true",
        overrides={"clientConnection.qps": 2.5, "a": True, "b": "c"},
        notes=("--x has no effect",),
        endpoints=EndpointOptions(secure_port=1, client_ca_file="/ca"),
        workers_address="tcp://127.0.0.1:7400",
        log_level="warning",
    ),
    binding=BindingPlan(
        qps=inf,
        profiles={
            "p": ProfileBinding(pre_bind=("V",), bind=("B",), post_bind=(), arguments={"B": {}})
        },
        extenders={2: msgspec.Raw(b"\x80")},
    ),
    election=LeaderElection(lease_duration_s=4.0, resource_name="l"),
    identity="me",
    breaks_ties_by_name=True,
)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "plan"
    path.write_bytes(content)
    return path


def test_all_that_is_written_is_read(tmp_path: Path) -> None:
    assert read_plan(written(tmp_path, WHOLE.encoded())) == WHOLE


def test_what_differs_between_children_is_on_the_command_line(tmp_path: Path) -> None:
    path = str(written(tmp_path, WHOLE.encoded()))
    start = child_start("scorer", [path, "--index", "2", "--heartbeat-fd", "7", "--careful", "1,9"])
    assert (start.plan, start.number, start.heartbeat_fd) == (WHOLE, 2, 7)
    assert start.careful == {1, 9}
    assert start.lifeline_fd is None
    assert child_start("owner", [path]).careful is None


@pytest.mark.parametrize("left_out", [[], [7, 8]])
def test_who_is_to_be_careful_learns_what_to_go_without(
    tmp_path: Path, left_out: list[int]
) -> None:
    path = str(written(tmp_path, WHOLE.encoded()))
    assert child_start("owner", [path, *option_of(left_out)]).careful == frozenset(left_out)


def test_who_must_heed_the_lease_is_told_by_the_election(tmp_path: Path) -> None:
    options = msgspec.structs.replace(WHOLE.options, runtime_dir=str(tmp_path))
    plan = msgspec.structs.replace(WHOLE, options=options)
    path = written(tmp_path, plan.encoded())
    assert child_start("owner", [str(path)]).gate(SystemClock()) is not None
    written(tmp_path, msgspec.structs.replace(plan, election=None).encoded())
    assert child_start("owner", [str(path)]).gate(SystemClock()) is None


OLDER = msgspec.structs.replace(WHOLE, version=PLAN_VERSION - 1).encoded()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (OLDER, f"version {PLAN_VERSION - 1}, this program reads {PLAN_VERSION}; start berth anew"),
        (msgspec.msgpack.encode({}), "missing required field `version`"),
        (b"\x81", "is no plan"),
        (
            msgspec.msgpack.encode({"version": PLAN_VERSION, "options": {"workers": "x"}}),
            "`$.options.workers`",
        ),
    ],
)
def test_a_plan_that_cannot_be_used_is_one_line_with_the_remedy(
    tmp_path: Path, content: bytes, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(ConfigurationError) as raised:
        read_plan(path)
    assert problem in str(raised.value)
    assert str(path) in str(raised.value)
    with pytest.raises(SystemExit) as ended:
        child_start("owner", [str(path)])
    assert ended.value.code == exit_codes.UNUSABLE
    (line,) = capsys.readouterr().err.splitlines()
    assert "unusable_plan" in line


def test_a_plan_that_is_missing_says_who_writes_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file or directory; berth run writes it"):
        read_plan(tmp_path / "plan")


def test_another_shape_has_another_version() -> None:
    """Whoever changes what is in the files raises the version, and writes the new sum down here."""
    structs: tuple[type[msgspec.Struct], ...] = (
        ChildPlan,
        RuntimeOptions,
        EndpointOptions,
        LeaderElection,
        BindingPlan,
        ProfileBinding,
        ExtenderConfig,
        ExtenderTls,
    )
    names = [field.encode_name for one in structs for field in msgspec.structs.fields(one)]
    assert (PLAN_VERSION, zlib.crc32(" ".join(names).encode())) == (10, 2523233439)


def test_a_kubeconfig_that_is_being_rewritten_ends_a_life_and_not_berth(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()
    options = RuntimeOptions(runtime_dir=str(tmp_path), kubeconfig=str(kubeconfig))
    plan = written(tmp_path, ChildPlan(options=options).encoded())
    start = child_start("leader", [str(plan)])
    with pytest.raises(SystemExit) as ended:
        start.access()
    assert ended.value.code == exit_codes.FILE_UNUSABLE
    assert "file_unusable" in (told := capfd.readouterr().err)
    assert str(kubeconfig) in told
    kubeconfig.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: a}}],"
        " clusters: [{name: a, cluster: {server: 'http://there'}}]}"
    )
    assert start.access().host == "there"
