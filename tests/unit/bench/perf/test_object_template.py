"""Object templates: bodies that are spliced are the bodies that would have been encoded."""

from pathlib import Path

import orjson
import pytest

from bench.perf.object_template import MARK, Names, ObjectTemplate, Series, named
from shared.errors import ConfigurationError

POD = f"""\
apiVersion: v1
kind: Pod
metadata:
  generateName: pod-
  labels: {{color: blue, hostname: {MARK}}}
spec: {{containers: [{{name: c, image: i%s}}]}}
"""


def template(tmp_path: Path, text: str) -> ObjectTemplate:
    path = tmp_path / "template.yaml"
    path.write_text(text)
    return ObjectTemplate(path)


@pytest.mark.parametrize("is_uniform", [True, False])
def test_bodies_differ_in_the_name_and_what_repeats_it(tmp_path: Path, is_uniform: bool) -> None:
    pod = template(tmp_path, POD % "")
    names = ["first", "second"]
    series = Series(pod.resource, "ns", names, lambda i: pod.body(i, 2), is_uniform)
    first, second = (orjson.loads(body) for body in series.bodies())
    assert first["metadata"]["name"] == first["metadata"]["labels"]["hostname"] == "first"
    assert second["metadata"]["name"] == second["metadata"]["labels"]["hostname"] == "second"
    assert second["metadata"]["labels"]["color"] == "blue"
    assert first["spec"] == second["spec"]
    assert "name" not in pod.body(0, 1)["metadata"], "the template itself stays as it was"


def test_a_template_with_actions_makes_each_object_its_own(tmp_path: Path) -> None:
    pod = template(tmp_path, POD % "-{{.Index}}-{{.Count}}")
    assert not pod.is_uniform
    series = Series(pod.resource, "ns", ["a", "b"], lambda i: pod.body(i, 2), False)
    images = [orjson.loads(b)["spec"]["containers"][0]["image"] for b in series.bodies()]
    assert images == ["i-0-2", "i-1-2"]


def test_names_are_unique_in_a_run() -> None:
    names = Names()
    pod = {"kind": "Pod", "metadata": {"generateName": "pod-"}}
    assert [names.take(pod), names.take(pod)] == ["pod-00000", "pod-00001"]
    assert names.take(named(pod, "given")) == "given"
    assert names.take({"kind": "PersistentVolume"}) == "persistentvolume-00000"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is not YAML"),
        ("[]", "is not an object"),
        ("{apiVersion: v9, kind: Rocket}", "v9 Rocket: not a kind that is known"),
    ],
)
def test_a_template_that_is_no_object_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        template(tmp_path, text)
    assert problem in caught.value.problems[0]


def test_a_template_that_is_not_there_is_refused_with_the_place(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="template paths count from the workload file"):
        ObjectTemplate(tmp_path / "nowhere.yaml")


MANY = """\
.name: &name {name: main}
plain: {apiVersion: v1, kind: Pod, spec: {containers: [*name]}}
numbered:
  apiVersion: v1
  kind: Pod
  metadata: {name: "pod-{{.Index}}", labels: {"of-{{.Count}}": yes-it-is}}
  spec: {containers: [{<<: *name, ports: [{hostPort: "8{{ Mod .Index 12 }}"}]}]}
"""


def test_one_file_may_hold_many_templates(tmp_path: Path) -> None:
    (tmp_path / "many.yaml").write_text(MANY)
    plain = ObjectTemplate(tmp_path / "many.yaml#plain")
    assert plain.is_uniform
    assert plain.body(0, 1)["spec"] == {"containers": [{"name": "main"}]}
    numbered = ObjectTemplate(tmp_path / "many.yaml#numbered")
    assert not numbered.is_uniform
    body = numbered.body(13, 20)
    assert body["metadata"] == {"name": "pod-13", "labels": {"of-20": "yes-it-is"}}
    assert body["spec"]["containers"][0]["ports"] == [{"hostPort": 81}], "a number again"
    with pytest.raises(ConfigurationError, match="has no template third"):
        ObjectTemplate(tmp_path / "many.yaml#third")


def test_members_are_found_in_any_case_and_keys_are_left_alone(tmp_path: Path) -> None:
    spread = "{MaxSkew: 1, NodeTaintsPolicy: Honor, labelSelector: {MatchLabels: {MaxSkew: a}}}"
    text = f"{{apiVersion: v1, kind: Pod, Spec: {{TopologySpreadConstraints: [{spread}]}}}}"
    assert template(tmp_path, text).body(0, 1)["spec"] == {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "nodeTaintsPolicy": "Honor",
                "labelSelector": {"matchLabels": {"MaxSkew": "a"}},
            }
        ]
    }


def test_older_versions_that_look_alike_are_created_in_the_newer_one(tmp_path: Path) -> None:
    older = template(tmp_path, "{apiVersion: resource.k8s.io/v1beta2, kind: DeviceClass}")
    assert older.body(0, 1)["apiVersion"] == "resource.k8s.io/v1"
    assert older.resource.version == "v1"
