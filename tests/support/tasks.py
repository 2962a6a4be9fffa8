"""Work, pod by pod."""

from shared.messages.to_scorer import PodTask, SchedulePods


def tasks_of(work: SchedulePods) -> list[PodTask]:
    found: list[PodTask] = []
    for run in work.runs:
        for _ in range(run.count):
            found.append(PodTask(work.first_ticket + len(found), run.class_id, run.uid))
    return found
