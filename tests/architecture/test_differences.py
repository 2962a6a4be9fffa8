"""Each line of docs/differences.md is shown by a test, or it is said why none can show it."""

import ast
import re
from pathlib import Path
from typing import Final

from shared.feature_gates import OBEYED

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "differences.md"
SAMPLE: Final = "unit/workers/scorer/test_node_sample.py"
KUBECONFIG: Final = "unit/shared/kube/test_kubeconfig.py"
GROUPS: Final = "unit/daemon/core/test_pod_groups.py"
GROUP_CLAIMS: Final = "unit/daemon/core/test_workload_claims.py"
EXTENDED: Final = "unit/daemon/core/test_extended_groups.py"
THEIRS: Final = "it is about what kube-scheduler does; here there is nothing of the kind"
LINES: Final[dict[str, str]] = {
    "`percentageOfNodesToScore` not set, or 0": (
        f"{SAMPLE}::test_unset_and_all_are_no_sample_unless_it_is_to_be_compatible"
    ),
    "choice among nodes of equal score": f"{SAMPLE}::test_among_equals_the_heap_decides",
    "batches of equal pods (OpportunisticBatching)": THEIRS,
    "several scoring workers (`--workers` above 1)": ("properties/test_pipeline_machine.py"),
    "plugins of your own, PreFilter to Score": "properties/test_declared_dependence.py",
    "errors of a Filter on several nodes": (
        "unit/shared/plugins/devices/test_dynamic_resources.py::test_an_error_names_the_device_of_each_node"
    ),
    "candidates above `minCandidateNodesPercentage`": "how many more upstream finds is chance",
    "where the search for victims begins, and equal candidates": (
        "unit/daemon/core/test_state.py::test_equal_events_and_seed_give_equal_decisions"
    ),
    "where SchedulerAsyncPreemption is off: a preemptor's status": (
        "unit/daemon/core/test_nominations.py"
        "::test_a_preemptors_status_is_written_while_its_victims_are_asked_to_go"
    ),
    "a plugin that is enabled for Filter, but not for its PreFilter": (
        "unit/shared/plugins/test_every_plugin.py"
        "::test_a_filter_has_what_its_pre_filter_found_where_that_is_disabled_too"
    ),
    "a plugin that is enabled for Score, but not for the PreScore": (
        "unit/bench/conformance/test_engine_evaluator.py"
        "::test_a_plugin_that_is_enabled_for_score_alone_prepares_its_score"
    ),
    "a negative weight of a plugin": ("unit/shared/test_config.py::test_a_problem_names_its_place"),
    "other feature gates than": (
        "unit/shared/test_feature_gates.py"
        "::test_a_gate_that_is_not_obeyed_is_named_where_its_value_is_not_the_default"
    ),
    "where a gate of devices is off": (
        "unit/shared/plugins/devices/test_device_gates.py"
        "::test_what_nobody_can_ask_for_without_a_gate_is_taken_from_who_has"
    ),
    "where DRAConsumableCapacity and DRADeviceBindingConditions are both off": THEIRS,
    "where SchedulerPopFromBackoffQ is off: a waiting pod": THEIRS,
    "NodeResourcesBalancedAllocation with an extended resource": THEIRS,
    "pod groups: pods that name one claim which the first of them is given": (
        "unit/daemon/core/test_group_claims.py"
        "::test_what_one_was_given_is_allocated_once_and_held_for_all"
    ),
    "pod groups: pods of one attempt that share a claim": (
        "unit/daemon/core/test_group_claims.py::test_pods_of_a_group_share_a_claim"
    ),
    "pod groups: which member of one priority is tried first": GROUPS,
    "pod groups: victims that are alike": "unit/workers/scorer/test_group_preemption.py",
    "pod groups: which of two victims that are groups of one size": (
        "unit/workers/scorer/test_group_preemption.py"
        "::test_of_two_groups_of_one_size_that_with_the_oldest_pod_is_more_important"
    ),
    "pod groups: placements by topology": "unit/daemon/core/test_group_placements.py",
    "pod groups: topology keys": (
        "unit/daemon/core/test_group_placements.py::test_the_narrowest_key_that_has_room_is_taken"
    ),
    "pod groups: victims of a gang with the annotation": "properties/test_elastic_gangs.py",
    "pod groups: the condition of a group without a place": (
        f"{GROUPS}::test_the_condition_says_what_a_gang_lacks"
    ),
    "pod groups: a member that fits once others have gone": (
        f"{GROUPS}::test_victims_stay_where_the_group_could_not_be_placed_even_without_them"
    ),
    "pod groups: back-off of a group that was not placed": (
        f"{GROUPS}::test_a_group_waits_out_its_back_off_though_there_is_nothing_else_to_try"
    ),
    "pod groups: a gang that small pods keep away": (
        "unit/daemon/core/test_group_reservations.py"
        "::test_a_gang_is_starved_by_small_pods_unless_room_is_held_for_it"
    ),
    "pod groups: extenders, where placements by topology are tried": (
        f"{EXTENDED}::test_racks_are_asked_about_from_the_best_on_until_one_takes_the_group"
    ),
    "pod groups: extenders, while it is looked for who has to go": (
        f"{EXTENDED}::test_room_for_a_whole_group_is_where_extenders_let_it_be"
    ),
    "pod groups: a pod whose own room would have to be made, where an extender": (
        f"{EXTENDED}::test_nobody_goes_for_a_pod_of_a_group_whose_extender_chooses_victims"
    ),
    "pod groups: Permit plugins of others": (
        f"{GROUPS}::test_a_pod_that_a_permit_plugin_refuses_goes_back_alone"
    ),
    "DRA: selectors": "unit/shared/cel/test_cel_selector.py::test_what_is_no_selector_does_not_compile",
    "DRA: selectors: a quantity that `add` or `sub` has made": (
        "unit/shared/cel/test_cel_selector.py::test_types_and_what_is_not_asked_for"
    ),
    "DRA: a claim that another allocated, without a timestamp": (
        "unit/workers/binder/test_claim_bind.py::test_a_shared_claim_gets_one_more_user"
    ),
    "DRA: `filterTimeout`": (
        "unit/shared/plugins/devices/test_dynamic_resources.py"
        "::test_filter_timeout_says_how_much_work_a_search_may_be"
    ),
    "DRA: a claim for extended resources that an earlier attempt has left": (
        "unit/daemon/core/test_claim_work.py"
        "::test_what_an_earlier_owner_left_for_a_pod_is_freed_and_the_pod_tried_again"
    ),
    "DRA: the implicit resource": (
        "unit/shared/dra/test_extended.py::test_the_youngest_class_stands_for_a_resource"
    ),
    "DRA: a pod with claims of its own on a node that has the extended resource": (
        "unit/bench/conformance/test_engine_evaluator.py"
        "::test_a_pod_with_claims_is_bound_where_the_node_itself_has_the_resource_of_a_class"
    ),
    "DRA: name of the claim that is made for extended resources": (
        "unit/workers/binder/test_claim_bind.py"
        "::test_the_claim_for_extended_resources_is_made_and_named_in_the_pod"
    ),
    "DRA: an extended resource that a node states as 0": (
        "unit/shared/plugins/devices/test_dynamic_resources.py"
        "::test_an_extended_resource_that_a_node_states_as_0_counts_as_not_stated"
    ),
    "DRA: a device class whose `extendedResourceName` another class has": (
        "unit/shared/dra/test_extended.py::test_the_youngest_class_stands_for_a_resource"
    ),
    "new labels, or a new status, of a pod on a node": (
        "unit/daemon/core/test_late_words.py::test_whoever_waits_for_them_is_woken"
    ),
    "a nominated pod that its claims kept out of the queue at first": (
        "unit/daemon/core/queue/test_scheduling_queue.py"
        "::test_a_nominated_pod_that_an_event_lets_in_takes_its_room"
    ),
    "pods that are deleted while they are active or in back-off": THEIRS,
    "DRA: a pod that names one claim twice": (
        "unit/shared/dra/test_pod_claims.py::test_a_claim_that_is_named_twice_is_one_claim"
    ),
    "DRA: a claim that was reserved for the pod before an attempt that fails": (
        "unit/shared/plugins/devices/test_device_gates.py"
        "::test_what_has_to_be_prepared_is_not_waited_for"
    ),
    "DRA: a claim that as many pods use as may": (
        "unit/shared/plugins/devices/test_dynamic_resources.py"
        "::test_a_claim_that_as_many_pods_as_may_already_use_is_in_use"
    ),
    "DRAWorkloadResourceClaims: a pod whose group is not there": (
        f"{GROUP_CLAIMS}::test_a_pod_waits_for_its_group_which_may_have_its_claims"
    ),
    "DRAWorkloadResourceClaims: what a group that fits nowhere was given": (
        f"{GROUP_CLAIMS}::test_what_a_group_that_fits_nowhere_had_been_given_is_given_back"
    ),
    "DRAWorkloadResourceClaims: a pod whose claim is reserved for its group": (
        f"{GROUP_CLAIMS}::test_each_pod_of_a_group_looks_at_its_claim_before_it_is_bound"
    ),
    "DRAWorkloadResourceClaims: a pod of no group whose generated claim": (
        f"{GROUP_CLAIMS}::test_a_claim_of_anothers_template_is_not"
    ),
    "DRAWorkloadResourceClaims: a claim of a pod after one": (
        f"{GROUP_CLAIMS}::test_a_claim_after_one_that_was_not_made_is_the_groups_where_it_lists_it"
    ),
    "DRANodeAllocatableResources: pods of a group that are given a claim together": (
        "unit/daemon/core/test_node_allocatable_claims.py"
        "::test_what_a_group_is_given_together_counts_once"
    ),
    "DRANodeAllocatableResources: a device in the pool of one driver": (
        "unit/shared/plugins/devices/test_node_allocatable.py::test_a_device_is_its_own_drivers"
    ),
    "DRANodeAllocatableResources is off": (
        "unit/shared/plugins/devices/test_node_allocatable.py"
        "::test_what_a_status_says_is_taken_counts_without_the_gate"
    ),
    "DRA: devices that an earlier attempt was given": (
        "unit/workers/binder/test_claim_bind.py"
        "::test_devices_that_an_earlier_scheduler_gave_and_that_do_not_get_ready_are_given_back"
    ),
    "binding that fails after claims were allocated": (
        "unit/workers/binder/test_claim_bind.py::test_what_the_attempt_allocated_is_free_again"
    ),
    "a binding that the API server refuses": (
        "unit/daemon/core/test_api_servers_word.py"
        "::test_an_attempt_ends_when_its_pod_was_bound_elsewhere_before_the_binder_says_so"
    ),
    "a pod that is being deleted when its turn comes": (
        "unit/daemon/core/test_api_servers_word.py"
        "::test_a_placement_of_a_pod_that_is_being_deleted_is_not_taken"
    ),
    "a pod that is deleted while its attempt is under way": (
        "unit/daemon/core/test_api_servers_word.py"
        "::test_nobody_is_told_of_an_attempt_that_fails_after_its_pod_was_deleted"
    ),
    "a pod that waits on Permit, changes": (
        "unit/daemon/core/test_api_servers_word.py"
        "::test_a_change_of_an_assumed_pod_counts_when_its_binding_fails"
    ),
    "messages of more than 32,768 characters": (
        "unit/daemon/core/test_api_servers_word.py::test_a_message_is_as_long_as_the_owner_can_hold"
    ),
    "for whom a pod was preempted": (
        "unit/workers/binder/test_api_bodies.py::test_a_victim_of_a_group_is_told_so"
    ),
    "a `%` in a message": THEIRS,
    "`nominatedNodeName` of pods of a gang that are about to be bound": THEIRS,
    'events on the Lease ("became leader")': "integration/test_leader.py",
    "a condition that a pod did not have": (
        "unit/workers/binder/test_api_bodies.py"
        "::test_the_condition_has_the_fields_and_values_that_kube_scheduler_writes"
    ),
    "a victim that is marked as one already": (
        "unit/workers/binder/test_evictions.py::test_a_victim_is_marked_first_and_deleted_by_uid"
    ),
    "volumes, and claims for one that are to be provisioned": (
        "unit/workers/binder/test_volume_bind.py"
        "::test_volumes_are_given_and_asked_for_and_then_awaited"
    ),
    "events that cannot be written as fast as they come": ("unit/workers/binder/test_recorder.py"),
    "pods that a gate held for more than five minutes": (
        "unit/daemon/core/queue/test_scheduling_queue.py::test_the_flush_of_leftovers_does_not_open_gates"
    ),
    "a selector that does not compile": (
        "unit/shared/cel/test_cel_selector.py::test_what_is_no_selector_does_not_compile"
    ),
    "times of extension points and plugins": (
        "unit/workers/scorer/test_point_times.py"
        "::test_each_pod_counts_once_at_each_point_that_it_came_to"
    ),
    "`/statusz`, `/flagz`": (
        "unit/daemon/endpoints/test_pages.py"
        "::test_statusz_and_flagz_are_text_for_people_as_kubernetes_components_tell_it"
    ),
    "plugins that take part in PreFilter or PreScore": (
        "architecture/test_differences.py::test_plugins_take_part_here_where_they_do_not_upstream"
    ),
    "metrics of Go, of the process and of client-go's inside": THEIRS,
    "endpoints: methods other than GET and HEAD": (
        "unit/daemon/endpoints/test_pages.py::test_other_paths_and_methods_are_refused"
    ),
    "endpoints: a client certificate of another authority": (
        "integration/test_endpoints.py::test_an_authority_that_was_replaced_is_not_trusted_any_more"
    ),
    "`/configz`, `--write-config-to`": (
        "unit/daemon/commands/test_check_config.py"
        "::test_what_is_written_names_plugins_where_kube_scheduler_has_them"
    ),
    "`/debug/pprof`, `/debug/flags/v`": (
        "unit/daemon/endpoints/test_pages.py::test_other_paths_and_methods_are_refused"
    ),
    "`/metrics/resources`": (
        "unit/daemon/adapter/test_kind_feed.py::test_finished_pods_are_deleted_pods"
    ),
    "a volume that somebody has given to the pod's claim": (
        "unit/workers/binder/test_volume_bind.py::test_an_order_that_comes_again_finds_its_own_words"
    ),
    "while a pod's volumes are being bound": (
        "unit/workers/binder/test_volume_bind.py"
        "::test_how_volumes_of_in_tree_plugins_are_reached_is_left_to_others"
    ),
    "victims of equal priority that started in the same second": "properties/test_preemption.py",
    "ImageLocality: nodes that have an image": (
        "unit/shared/plugins/test_small_plugins.py"
        "::test_nodes_that_have_an_image_are_counted_as_they_are_now"
    ),
    "a resource of a plugin's events that is not served": (
        "integration/test_custom_resources.py"
        "::test_a_resource_that_is_not_served_keeps_nobody_waiting_and_is_named"
    ),
    "a quantity beyond 64 bits": "unit/shared/kube/test_quantity.py::test_values_stay_within_64_bits",
    "what can only fail later": (
        "unit/shared/extenders/test_extender_config.py"
        "::test_what_cannot_work_is_named_with_its_place"
    ),
    "addresses (of the API server, of extenders)": f"{KUBECONFIG}::test_addresses_that_are_none",
    "addresses of the API server without": f"{KUBECONFIG}::test_addresses_that_are_none",
    "kubeconfig: a user, and beside": (
        f"{KUBECONFIG}::test_who_is_named_has_to_be_there_and_who_is_not_may_be_wrong"
    ),
    "kubeconfig: what is wrong with entries": (
        f"{KUBECONFIG}::test_who_is_named_has_to_be_there_and_who_is_not_may_be_wrong"
    ),
    "kubeconfig: `interactiveMode: Always`": f"{KUBECONFIG}::test_problems_name_their_place",
    "in a pod: a `ca.crt` of the service account": (
        f"{KUBECONFIG}::test_in_a_pod_the_service_account_is_used"
    ),
    "an answer of the API server that names another place": (
        "integration/test_adapter.py::test_who_is_sent_elsewhere_stays_and_asks_again"
    ),
    "proxies: `https://`": f"{KUBECONFIG}::test_problems_name_their_place",
    "a configuration or kubeconfig that begins with `{`": (
        "unit/shared/test_config.py"
        "::test_a_document_may_begin_as_json_and_be_none_and_null_is_the_default"
    ),
    "`--flag VALUE` where the value is a truth": (
        "unit/daemon/commands/test_run_flags.py"
        "::test_what_has_no_effect_is_named_with_its_reason_unless_it_asks_for_what_is"
    ),
    "`ignoredByScheduler` of an extender's resource": (
        "unit/shared/extenders/test_extender_config.py"
        "::test_resources_may_be_ignored_where_nobody_looks_at_them"
    ),
    "values of NodeResourcesFit's arguments": (
        "unit/shared/framework/runtime/test_registry.py"
        "::test_wrong_arguments_are_refused_even_of_plugins_that_do_not_run"
    ),
    "`--version=vX.Y.Z`": (
        "unit/daemon/test_cli.py::test_a_version_that_is_not_asked_for_is_not_told"
    ),
    "values of flags without effect": THEIRS,
    "several pods": (
        "unit/workers/scorer/test_extended_pods.py"
        "::test_the_most_important_are_asked_about_first_and_not_all_at_once"
    ),
    "nodes that an extender's Filter is sent": (
        "unit/workers/scorer/test_extended_pods.py::test_all_nodes_that_take_the_pod_are_sent"
    ),
    "Node objects that one extender sends back changed": (
        "integration/test_extender_calls.py"
        "::test_each_extender_is_asked_about_what_the_one_before_left"
    ),
    "victims whose going makes no room, or that are not less important": (
        "unit/workers/scorer/test_extended_pods.py::test_what_extenders_leave_may_be_nothing"
    ),
    "a whole Node object sent back that the extender was not sent": (
        "integration/test_extender_calls.py::test_a_whole_node_that_nobody_asked_about_is_an_error"
    ),
    "an answer that cannot be read": (
        "wire/test_extender_recorded.py::test_the_same_comes_of_the_answer"
    ),
    "an extender that cannot be reached": (
        "integration/test_extender_calls.py"
        "::test_an_extender_that_cannot_be_reached_is_named_with_what_is_wrong"
    ),
    "an extender that redirects": (
        "integration/test_extender_calls.py::test_an_ignorable_extender_may_fail_to_preempt"
    ),
    "an answer to preempt with a node that was no candidate": (
        "integration/test_extender_calls.py::test_a_victim_that_is_not_on_the_node_is_an_error"
    ),
    "an error after a bind call": (
        "integration/test_extender_calls.py::test_after_a_failure_the_api_server_has_the_last_word"
    ),
    "a bound pod that the API server shows without a node again (restored etcd)": (
        "unit/daemon/core/test_api_servers_word.py"
        "::test_a_pod_that_is_shown_without_its_node_again_is_scheduled_anew"
    ),
    "placements of a pod that are refused again and again": (
        "unit/daemon/core/queue/test_scheduling_queue.py"
        "::test_a_pod_that_is_refused_too_often_in_a_row_goes_through_back_off"
    ),
    "victims that the API server will not delete": (
        "unit/daemon/core/test_nominations.py"
        "::test_a_victim_that_cannot_be_deleted_gives_the_preemptor_another_try"
    ),
    "what helps a preemptor while its victims are being asked to go": (
        "sim/test_stories.py"
        "::test_what_helps_a_preemptor_while_its_victims_are_asked_to_go_is_not_lost"
    ),
    "the outcome of a binding that nobody knows (the connection broke)": (
        "integration/test_extender_calls.py::test_an_order_that_was_lost_is_looked_up_first"
    ),
    "one of several victims that cannot be deleted": (
        "unit/workers/binder/test_evictions.py::test_one_victim_that_fails_keeps_no_other"
    ),
    "deletion of a victim, status of a pod": (
        "unit/workers/binder/test_evictions.py::test_a_victim_is_marked_first_and_deleted_by_uid"
    ),
    "a pod of more than 256 resource names; a node of more than 256 resources or 1,024 labels": (
        "unit/daemon/core/test_names_of_resources.py"
        "::test_a_pod_that_asks_for_too_many_is_refused_by_name"
    ),
    "a watch that fails": (
        "integration/test_adapter.py::test_a_version_that_no_watch_goes_on_from_is_given_up"
    ),
    "half of a surrogate pair": (
        "unit/shared/kube/test_go_json.py::test_half_a_surrogate_pair_is_a_replacement_character"
    ),
    "a pod whose affinity, spread constraints or claims are more work than about a second": (
        "unit/shared/framework/runtime/test_pod_weight.py::test_others_go_on_beside_a_pod_that_is_too_much"
    ),
    "a pod that a scoring process does not survive twice": (
        "unit/daemon/core/test_suspects.py::test_the_one_that_nobody_survives_is_found_and_parked"
    ),
}
"""How a line begins -> the test that shows it, or a sentence."""


def lines() -> list[str]:
    """The first cell of every line of every table."""
    rows = re.findall(r"^\| (.+?) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [row for row in rows if row not in ("what", "---")]


def test_every_line_is_shown_or_it_is_said_why_not() -> None:
    told = lines()
    assert len(told) >= 25
    assert [line for line in told if not any(map(line.startswith, LINES))] == []
    gone = [start for start in LINES if not any(line.startswith(start) for line in told)]
    assert gone == [], "no such line any more"


def test_the_tests_that_show_them_are_there() -> None:
    missing = []
    for shown_by in LINES.values():
        path, _, name = shown_by.partition("::")
        if not path.endswith(".py"):
            continue
        text = ROOT / "tests" / path
        if not text.exists() or (name and f"def {name}(" not in text.read_text(encoding="utf-8")):
            missing.append(shown_by)
    assert missing == []


def test_the_gates_that_are_obeyed_are_named() -> None:
    (row,) = re.findall(r"^\| other feature gates than (.*?) \|", PAGE.read_text(), re.MULTILINE)
    assert set(re.findall("[A-Z][A-Za-z]+", row)) == OBEYED


def test_plugins_take_part_here_where_they_do_not_upstream() -> None:
    from shared.framework.runtime.profiles import OURS_ALONE, ProfileConfig, takes_part
    from shared.plugins.in_tree import InTreeRegistry

    built = InTreeRegistry().build(ProfileConfig())
    by_name = {plugin.NAME: plugin for each in built.plugins_at.values() for plugin in each}
    for point, names in OURS_ALONE.items():
        assert all(takes_part(by_name[name], point) for name in names)


def test_each_message_of_the_guide_is_one_that_berth_says() -> None:
    guide = (ROOT / "docs" / "migrate.md").read_text(encoding="utf-8")
    table = guide.partition("| message contains |")[2].partition("\n\n")[0]
    messages = re.findall(r"(?m)^\| `(.+?)` \|", table)
    assert len(messages) >= 6
    said = {
        node.value
        for package in ("daemon", "workers", "shared")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert [each for each in messages if not any(each in text for text in said)] == []
