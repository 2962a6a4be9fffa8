"""What the demo creates."""

import hashlib
from pathlib import Path

import orjson

from bench.demo.workload import OTHERS_BETWEEN, jobs_of, openb_workload, synthetic_workload
from bench.openb.trace import DATA, TracePod, read_nodes, read_pods


def test_the_trace_is_the_one_that_was_published() -> None:
    sums = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in DATA.glob("*.csv")}
    assert sums == {
        "openb_node_list_all_node": "5a85c2af79c66a1efff8bbcbda430400aae56d8431370d738480967e1a9c6b15",
        "openb_pod_list_default": "1ee7ed79c27a3b0861cda8ddba86a004c6aba904caafa329a76ae93ca63834a8",
    }


def test_the_openb_cluster_is_complete() -> None:
    nodes, pods = read_nodes(), read_pods()
    assert (len(nodes), sum(node.gpu_count for node in nodes)) == (1523, 6212)
    assert (len(pods), sum(pod.gpu_count for pod in pods)) == (8152, 7433)
    workload = openb_workload()
    assert (len(workload.nodes), len(workload.pods)) == (1523, 8152)


def test_an_openb_node_has_its_gpus_as_a_resource_and_their_model_as_a_label() -> None:
    with_gpu = next(node for node in read_nodes() if node.gpu_model == "V100M16")
    bodies = [orjson.loads(body) for body in openb_workload().nodes]
    body = next(one for one in bodies if one["metadata"]["name"] == with_gpu.name)
    assert body["status"]["allocatable"] == {
        "cpu": f"{with_gpu.cpu_milli}m",
        "memory": f"{with_gpu.memory_mib}Mi",
        "pods": "110",
        "nvidia.com/gpu": f"{with_gpu.gpu_count}",
    }
    assert body["metadata"]["labels"]["nvidia.com/gpu.product"] == "V100M16"


def test_an_openb_pod_asks_for_whole_gpus() -> None:
    first = orjson.loads(openb_workload().pods[0].body)
    resources = first["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "12000m", "memory": "16384Mi", "nvidia.com/gpu": "1"}
    assert resources["limits"] == {"nvidia.com/gpu": "1"}


def test_a_pod_with_several_gpus_is_a_job_whose_pods_come_among_others() -> None:
    trace = [TracePod("job", 3000, 4096, 2, (), "LS")]
    trace += [TracePod(f"p{number}", 1, 1, 0, (), "BE") for number in range(OTHERS_BETWEEN)]
    alone, gangs = (jobs_of([], trace, as_gangs=as_gangs) for as_gangs in (False, True))
    assert alone.jobs == gangs.jobs == {"job": ["job-0", "job-1"]}
    assert [pod.name for pod in gangs.pods].index("job-1") == OTHERS_BETWEEN
    of_gang, of_none = (orjson.loads(each.pods[0].body)["spec"] for each in (gangs, alone))
    assert of_gang.pop("schedulingGroup") == {"podGroupName": "job"}
    assert of_gang == of_none
    assert of_gang["containers"][0]["resources"]["requests"] == {
        "cpu": "1500m",
        "memory": "2048Mi",
        "nvidia.com/gpu": "1",
    }
    (group,) = (orjson.loads(body) for body in gangs.groups)
    assert group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}
    assert not alone.groups


def test_pods_come_in_order_of_creation_and_may_be_bound_to_gpu_models(tmp_path: Path) -> None:
    trace = tmp_path / "pods.csv"
    trace.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time\n"
        "late,1,2,0,0,,BE,20\n"
        "early,1,2,1,500,G2|T4,LS,10\n"
    )
    assert read_pods(trace) == [
        TracePod("early", 1, 2, 1, ("G2", "T4"), "LS"),
        TracePod("late", 1, 2, 0, (), "BE"),
    ]


def test_a_synthetic_cluster_has_the_size_that_was_asked_for() -> None:
    workload = synthetic_workload(3, 5)
    assert len(workload.nodes) == 3
    assert len({pod.name for pod in workload.pods}) == 5
    assert orjson.loads(workload.nodes[0])["status"]["allocatable"]["cpu"] == "4"
