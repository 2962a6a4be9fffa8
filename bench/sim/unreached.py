"""The table of what no seed has reached, and why."""

import re
from collections import Counter
from collections.abc import Sequence
from fnmatch import translate
from functools import cache
from typing import Final

from bench.sim.coverage import (
    FOLDERS,
    Function,
    Lines,
    functions,
    lines_of_errors,
    ranges,
    texts,
    unreached,
)

ERRORS: Final = "Raises, logs, or does something about an exception that no seed brings about"
UNKNOWN: Final = "Nobody has looked yet"
REASONS: Final[dict[str, Sequence[str]]] = {
    "The simulation puts processes together itself": (
        "workers/*/__main__.py:*",
        "workers/scorer/extender_calls.py:ExtenderCaller.*",
        "workers/binder/extender_bind.py:ExtenderBinder.close",
        "workers/binder/fences.py:Fences.cut_all",
        "workers/scorer/extender_calls.py:ExtenderDesk.run",
    ),
    "People ask for it, or an option has it written down": (
        "daemon/core/administration.py:*",
        "daemon/core/attempt_ends.py:AttemptEnds._decision",
        "daemon/core/holdings.py:OutgoingWork.log_step",
        "daemon/core/cache.py:Cache.asked_in_vain",
        "daemon/core/counters.py:*",
        "daemon/core/invariants.py:*",
        "daemon/core/overview_pages.py:*",
        "daemon/core/queue/wakeups.py:Wakeups.*",
        "daemon/core/scorer_links.py:ScorerLinks._log_handed_out",
        "shared/framework/runtime/diagnosis.py:node_verdicts",
        "daemon/core/fit_reasons.py:*",
        "shared/framework/runtime/plugin_times.py:*",
        "workers/binder/bind_call.py:decision_text",
        "workers/scorer/scorer_loop.py:ScorerLoop._log_answers",
        "daemon/core/attempt_ends.py:AttemptEnds.order_binding:*.log_step(*",
        "daemon/core/binder_links.py:BinderLinks._end:*.log_step(*",
        "daemon/core/committer.py:Committer._time_reserve:*",
        "daemon/core/node_columns.py:NodeTree.zone_names",
        "daemon/core/nominations.py:NominationBook.awaited_victims",
        "shared/framework/status.py:Verdicts.status",
        "shared/plugins/preemption/victim_selector.py:FailedNodes.verdicts",
        "workers/binder/bind_call.py:binding_body:meta[[]*",
        "workers/binder/binder_loop.py:BinderLoop._bind:where = *",
        "workers/binder/binder_loop.py:BinderLoop._bind:step*",
        "workers/scorer/scorer_loop.py:ScorerLoop._do_work:*_log_answers*",
    ),
    "For more nodes, or larger pods, than the simulation has": (
        "daemon/core/state.py:SchedulerState._tidy:*forget_all()",
        "shared/engine/evaluation.py:Evaluation.catch_up:return False",
        "shared/framework/post_filter.py:Candidates.only:return self.picked*",
        "shared/framework/runtime/framework.py:Framework.run_pre_filters:*refusal, {refusal.plugin*",
        "daemon/core/cached_nodes.py:CachedNodes.compact*",
        "shared/engine/best_rows.py:*",
        "shared/engine/class_filters.py:*",
        "shared/engine/class_scores.py:*",
        "workers/scorer/lone_pods.py:*",
        "shared/engine/row_states.py:*",
        "shared/framework/class_index.py:*",
        "shared/framework/*:ClassUsages.*",
        "shared/framework/runtime/framework.py:is_too_much",
        "shared/framework/runtime/framework.py:_weights",
        "daemon/core/node_columns.py:*",
        "daemon/core/cluster_changes.py:ClusterChanges._enqueue:*asks for {asked_count}*",
        "daemon/core/cluster_changes.py:ClusterChanges._enqueue:self._cache.classes.release(pod_class)",
        "daemon/core/cluster_changes.py:ClusterChanges._enqueue:self.refuse_pod(*",
        "daemon/core/queue/in_flight.py:InFlight.record*",
        "daemon/core/status_patches.py:StatusPatches.add:del *",
        "shared/engine/evaluation.py:Evaluations.of:*popitem*",
        "shared/engine/families.py:Families.of:*.clear()",
        "shared/engine/families.py:Families._was_seen:*.clear()",
        "shared/engine/evaluation.py:Evaluation.heeded_of:*.clear()",
        "shared/framework/object_store.py:ObjectStore._note:*",
        "shared/framework/runtime/framework.py:Framework.plan:*.clear()",
        "workers/binder/claim_bind.py:ClaimBinder._agreed:continue",
        "workers/binder/recorder.py:EventRecorder._count_event:*",
        "workers/binder/recorder.py:EventRecorder._make_room:*",
        "workers/binder/recorder.py:EventRecorder._drop:*",
        "workers/binder/recorder.py:EventRecorder._write_patch:*popitem*",
        "workers/scorer/scorer_loop.py:ScorerLoop._beat:*that no row has any more*",
    ),
    "Only a configuration that no seed has leads there": (
        "daemon/core/cluster_changes.py:ClusterChanges.pod_changed:*group=*",
        "shared/framework/out_of_tree.py:*",
        "workers/scorer/evaluator.py:RoomMaker.conclude:return Failure([[]task.ticket*",
        "workers/scorer/evaluator.py:RoomMaker.conclude:told, is_error*",
        "daemon/core/cluster_changes.py:ClusterChanges._join_group:self._groups.remove(old)",
        "daemon/core/cluster_changes.py:ClusterChanges._join_group:let_in.append(record.uid)",
        "workers/scorer/extended_pods.py:ExtendedCycle._filtered:return ExtenderAnswer(number*",
        "workers/scorer/extender_calls.py:ExtenderDesk._preempt_args:uids = *",
        "workers/scorer/extender_calls.py:ExtenderDesk._preempt_args:bodies = *",
        "workers/scorer/extender_calls.py:ExtenderDesk._preempt_args:return *, dict(zip(*",
        "workers/scorer/engine.py:Engine._choose_of_some",
        "workers/scorer/engine.py:Engine._sampled",
        "shared/framework/*:merged_with_default",
        "workers/scorer/engine.py:NodeSample.take",
        "workers/scorer/engine.py:count_to_find",
        "workers/scorer/engine.py:first_in_heap",
        "shared/framework/runtime/framework.py:sampling_of*",
        "shared/framework/plugin_args.py:*",
        "shared/framework/runtime/registry.py:*",
        "shared/framework/*:shape_problems",
        "workers/binder/binder_assembly.py:plugins_by_profile:*",
        "daemon/core/cache.py:Cache.finish_binding:*",
        "daemon/core/pod_groups.py:PodGroups.gate_of:return None",
        "daemon/core/pod_groups.py:PodGroups.priority:*",
        "daemon/core/pod_groups.py:PodGroups._why_nobody_goes:*",
        "daemon/core/queue/pod_line.py:BackoffQueue.set_end:*",
        "shared/framework/runtime/profiles.py:expanded",
        "shared/framework/normalize.py:ratio_table",
        "shared/plugins/preemption/default_preemption.py:DefaultPreemptionArgs.problems",
        "workers/binder/binder_assembly.py:limits_of:*",
        "workers/scorer/cycle.py:Cycle._among:*nodes.name_of*",
    ),
    "Only a plugin of somebody else leads there": (
        "daemon/core/checker.py:Checker._passing_alone:return None",
        "daemon/core/checker.py:Checker._with_room:return None",
        "workers/scorer/engine.py:Engine._answers_for_run:return None",
        "shared/engine/evaluation.py:Evaluation._answers_if_enough:return None",
        "shared/engine/evaluation.py:Evaluation.catch_up:follower.note()*whatever pods there are.",
        "shared/engine/evaluation.py:Evaluation.catch_up:return True",
        "shared/engine/state_answers.py:StateAnswers.follow:return False",
        "shared/framework/queueing_hints.py:_line_problems",
        "shared/framework/runtime/framework.py:Framework.run_pre_filters:*",
        "workers/scorer/evaluator.py:post_filter:pod = prepared(*",
        "workers/scorer/engine.py:Engine.choose:return None",
        "workers/scorer/extended_pods.py:ExtendedCycle._feasible_nodes:return [[]]",
        "shared/framework/cluster_event.py:actions_of:return frozenset({Action.UNSCHEDULABLE_TIMEOUT*",
        "shared/framework/runtime/diagnosis.py:*_error",
        "shared/framework/runtime/diagnosis.py:status_of:return status._replace(*",
        "shared/framework/runtime/plans.py:PreScoreError.*",
        "shared/framework/runtime/framework.py:out_of_range",
        "shared/plugins/preemption/victim_selector.py:FailedNodes.add_alike:self.errors*",
        "daemon/core/owner_plugins.py:*",
        "daemon/core/queue/scheduling_queue.py:SchedulingQueue.activate",
        "daemon/core/waiting_pods.py:*",
        "shared/framework/per_node.py:*",
        "shared/framework/runtime/diagnosis.py:invalid_score",
        "workers/binder/binding_cycle.py:BindingCycle.post_bind",
        "workers/binder/foreign_plugins.py:*",
        "workers/scorer/engine.py:Engine.choose:*invalid_score(*",
        "shared/engine/families.py:_split",
        "shared/framework/runtime/diagnosis.py:diagnose:pending.add(*",
        "shared/framework/runtime/diagnosis.py:_rejected_by_pre_filter",
        "shared/framework/runtime/framework.py:weighted:*INVALID*",
        "shared/framework/runtime/plans.py:_kinds_read:return None",
        "shared/framework/runtime/framework.py:_no_common_node",
        "shared/plugins/preemption/victim_selector.py:FailedNodes.add:*",
        "workers/binder/binding_cycle.py:_groups",
        "workers/binder/binding_cycle.py:BindingCycle.bind:message = *",
        "workers/binder/binding_cycle.py:BindingCycle.bind:return await self._ended(order, NotBound(*",
        "workers/scorer/evaluator.py:_no_candidate:*",
        "workers/scorer/extended_pods.py:ExtendedCycle._best_among:*",
    ),
    "Only tests and benchmarks ask": (
        "daemon/core/cached_nodes.py:CachedNodes.add_node",
        "daemon/core/state.py:SchedulerState.handle",
    ),
    "A measure falls, so that no seed comes so far": (
        "daemon/core/committer.py:Committer.try_again",
        "daemon/core/queue/scheduling_queue.py:SchedulingQueue.requeue_head:*_requeue_failed*",
    ),
    "No process of ours says such a thing": (
        "daemon/core/adapter_links.py:AdapterLinks._finish_sync:return",
        "daemon/core/checker.py:Stretch.takes:return False",
        "daemon/core/checker.py:Stretch._takes_domains:return False*",
        "workers/scorer/extended_pods.py:ExtendedCycle._candidates:uids = *",
        "workers/scorer/extended_pods.py:ExtendedCycle._candidates:return (",
        "workers/scorer/extended_pods.py:ExtendedCycle._candidates:f*claims to preempt pods*",
        "daemon/core/committer.py:Committer.judge:*PROPOSALS_STALE*",
        "daemon/core/committer.py:Committer.judge:cache.touch_row(row)",
        "daemon/core/binder_links.py:BinderLinks.hear",
        "daemon/core/peer_checks.py:*",
        "daemon/core/scorer_links.py:ScorerLinks._note_refused",
        "daemon/core/scorer_links.py:ScorerLinks._send_away",
        "daemon/core/scorer_links.py:ScorerLinks.hear",
        "daemon/core/committer.py:passing:*len(stretch)*",
        "daemon/core/preemptions.py:Preemptions._fit_without:return False",
        "daemon/core/scorer_links.py:ScorerLinks._greet:problem = *",
        "daemon/core/scorer_links.py:ScorerLinks._greet:*ScorerRefused*",
        "daemon/core/scorer_links.py:ScorerLinks._greet:self._note_refused*",
    ),
    "Beyond kube-scheduler, and the oracle does not know it": (
        "shared/plugins/preemption/potential_victims.py:*_on:order = np.lexsort((is_spare, *",
        "shared/plugins/preemption/potential_victims.py:*_on:found, at = found[[]order*",
        "workers/scorer/group_preemption.py:_Search.without:order[[]place:[]] = *",
        "shared/plugins/preemption/potential_victims.py:are_spare",
    ),
    "On another host": (
        "workers/scorer/scorer_loop.py:ScorerLoop._tell_of_absence",
        "workers/scorer/scorer_loop.py:ScorerLoop._beat:*_tell_of_absence*",
    ),
    "Devices are ready at once": (
        "workers/binder/claim_bind.py:ClaimBinder.pre_bind:if end.unready*",
        "workers/binder/claim_bind.py:ClaimBinder.pre_bind:return Refused(end.message)*",
        "workers/binder/claim_bind.py:ClaimBinder.pre_bind:await self.undo(*",
        "workers/binder/claim_bind.py:ClaimBinder.pre_bind:self._on_waiting(order)",
        "workers/binder/claim_bind.py:ClaimBinder.pre_bind:end = await devices_waited_for(*",
        "workers/binder/api_bodies.py:waiting_for_devices_event",
        "workers/binder/claim_ready.py:*",
        "workers/binder/recorder.py:*.pod_waits_for_devices",
    ),
    "A lease that ends in the middle of a binding": (
        "workers/binder/binder_loop.py:BinderLoop._on_orders:return",
        "workers/binder/binder_loop.py:BinderLoop._on_preempt:return",
        "workers/binder/binder_assembly.py:*",
        "workers/binder/binder_loop.py:BinderLoop._tick:left = *",
        "workers/binder/binder_loop.py:BinderLoop._tick:self._abandon()",
        "workers/binder/binder_loop.py:*._over",
        "workers/binder/binder_loop.py:*.stop_now",
        "workers/binder/fences.py:Fences.has_lapsed:*",
        "workers/binder/fences.py:Fences.take:return False",
    ),
    "A seed does not last that long": (
        "daemon/core/scorer_links.py:ScorerLinks.lose_the_silent:*",
        "workers/binder/retries.py:Retries.pause:return False",
        "workers/binder/binding_cycle.py:BindingCycle._undone:return outcome*",
        "workers/binder/recorder.py:EventRecorder.tick:self._wait_to_write(entry)",
        "workers/binder/recorder.py:EventRecorder.tick:del self._series[[]key[]]",
        "daemon/core/cache.py:Cache.cleanup_expired",
        "daemon/core/cache.py:Cache.next_wakeup_s",
        "daemon/core/queue/scheduling_queue.py:SchedulingQueue.flush:*",
        "daemon/core/queue/unschedulable.py:UnschedulablePods.leftovers",
        "daemon/core/scorer_links.py:ScorerLinks.release_parked",
        "daemon/core/suspects.py:*",
        "daemon/core/counters.py:Counters.bound:*AFTER_FLUSH*",
        "daemon/core/state.py:SchedulerState._pass_time:*",
        "daemon/core/cluster_changes.py:ClusterChanges.requeue",
    ),
    "It is worked out when modules are imported": (
        "shared/framework/pod_info.py:_Once.__init__",
        "daemon/core/owner_counts.py:*",
    ),
    "Only an extender leads there that would take a node if pods were gone from it": (
        "shared/plugins/preemption/victim_selector.py:VictimSelector._with_victims:row = *",
        "shared/plugins/preemption/victim_selector.py:VictimSelector._with_victims:name = *",
        "shared/plugins/preemption/victim_selector.py:VictimSelector._with_victims:text = *",
        "shared/plugins/preemption/victim_selector.py:VictimSelector._with_victims:self.failed.add_alike(*",
    ),
    "Two things would have to meet within a moment": (
        "daemon/core/binder_links.py:BinderLinks._on_report:*requeue_unschedulable*",
        "daemon/core/binder_links.py:BinderLinks._on_bind_failed:return",
        "daemon/core/attempt_ends.py:claim_releases:continue*",
        "daemon/core/group_commits.py:GroupCommits._is_placed:*nominator.nominate(*",
        "daemon/core/group_commits.py:GroupCommits._have_gone:return False",
        "daemon/core/preemptions.py:Preemptions._confirmed_for_group:return None",
        "daemon/core/nominations.py:NominationBook.not_placed:return",
        "daemon/core/binder_links.py:BinderLinks._on_victim:return",
        "daemon/core/syncs.py:Syncs.unsee:*discard(key)",
        "workers/binder/claim_free.py:ClaimFreer._free:await asyncio.sleep(PAUSE_S)",
        "workers/binder/claim_free.py:ClaimFreer._free_once:freed*= others",
        "workers/binder/recorder.py:EventRecorder._wait_to_write:return",
        "workers/binder/volume_bind.py:VolumeBinder._look:return *",
        "workers/scorer/cycle.py:Cycle._place_group:self.start_over()*",
        "workers/scorer/cycle.py:Cycle._reserve:break",
        "workers/scorer/group_cycle.py:GroupCycle._best:return failing, True",
        "workers/scorer/group_cycle.py:GroupCycle._counted:return counts, domain",
        "workers/scorer/group_cycle.py:room_by_row:return None",
        "shared/engine/evaluation.py:Evaluation.speak_of:self.scores.pod = info",
        "shared/engine/evaluation.py:Evaluation._rows_of_objects:return None",
        "shared/framework/object_store.py:ObjectStore.shared:*",
        "shared/framework/object_store.py:ObjectStore.forget_assumed_for:*",
        "shared/framework/pod_info.py:PodInfo.fit_*",
        "shared/framework/runtime/prepared_pod.py:counting_own_node:return pod",
        "shared/plugins/preemption/default_preemption.py:_code_of:return *",
        "shared/plugins/preemption/victim_selector.py:fits_without:return False",
        "shared/plugins/preemption/victim_selector.py:victims_on:return NO_ROWS",
    ),
    "Only a bug of ours would lead there": (
        "daemon/core/adapter_links.py:AdapterLinks._apply:case to_owner.AdapterHello():",
        "daemon/core/queue/scheduling_queue.py:SchedulingQueue.*:case Place.GONE:",
    ),
    "Workers can read what the owner reads: they have evaluated the pod with the same code": (
        "daemon/core/holdings.py:ClusterFacts.forget_derived",
    ),
}
"""Why -> file:function, or file:function:line, patterns as of shells; the first that fits is told."""


def why(function: Function, line: str) -> str:
    """What is known of a line of it."""
    place = f"{function.file}:{function.name}:{line.strip()}"
    for reason, patterns in REASONS.items():
        if any(_compiled(pattern).match(place) for pattern in patterns):
            return reason
    return UNKNOWN


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """One that names no line means all of the function."""
    return re.compile(translate(pattern if pattern.count(":") > 1 else f"{pattern}:*"))


def stale() -> list[str]:
    """Patterns that mean nothing any more."""
    places = [
        f"{each.file}:{each.name}:{line}" for each in functions() for line in texts(each).values()
    ]
    patterns = [pattern for several in REASONS.values() for pattern in several]
    return [one for one in patterns if not any(map(_compiled(one).match, places))]


def table(reached: Lines, seeds: str) -> str:
    """As Markdown: lines by reason and file; where there is no reason, by function."""
    found = unreached(reached)
    line_count = sum(len(each.lines) for each in functions())
    left_count = sum(len(each.lines) for each in found)
    folders = ", ".join(f"`{folder}`" for folder in FOLDERS)
    by_reason, unknown = _by_reason(found)
    told = [
        "# Lines that no seed reaches",
        "",
        f"Made by `berth sim --coverage FILE --seeds {seeds}`: of {line_count} lines in functions of"
        f" {folders}, {left_count} were not reached.",
    ]
    for reason in (*REASONS, ERRORS):
        files = by_reason.get(reason, Counter())
        told += ["", f"## {reason} ({files.total()})", ""]
        told += [", ".join(f"`{file}` {count}" for file, count in sorted(files.items()))]
    count = sum(len(each.lines) for each in unknown)
    told += [
        "",
        f"## {UNKNOWN} ({count})",
        "",
        "| file | function | lines |",
        "| --- | --- | --- |",
    ]
    told += [f"| `{each.file}` | `{each.name}` | {ranges(each.lines)} |" for each in unknown]
    told += ["", *(f"There is no {pattern} any more." for pattern in stale())]
    return "\n".join(told) + "\n"


def _by_reason(found: Sequence[Function]) -> tuple[dict[str, Counter[str]], list[Function]]:
    """Reason -> file -> lines; and what there is no reason for."""
    errors = lines_of_errors()
    by_reason: dict[str, Counter[str]] = {}
    unknown: list[Function] = []
    for function in found:
        left = set()
        for number, line in texts(function).items():
            reason = why(function, line)
            if reason == UNKNOWN and number in errors.get(function.file, ()):
                reason = ERRORS
            if reason == UNKNOWN:
                left.add(number)
            else:
                by_reason.setdefault(reason, Counter())[function.file] += 1
        if left:
            unknown.append(function._replace(lines=frozenset(left)))
    return by_reason, unknown
