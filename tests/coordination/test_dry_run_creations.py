"""How long answers to dry-run creations are relied on, and for which pods."""

import pytest

from harness import builders as b
from rescheduler.calls.call import Call, Verb
from rescheduler.calls.pods import tried_deletion, tried_hand_over
from rescheduler.coordination.dry_run_creations import DryRunCreations, template_of
from rescheduler.model.kinds import Kind
from rescheduler.model.outcomes import CreationAnswer, CreationOutcome
from rescheduler.model.records import ObjectKey, PodSpec
from rescheduler.model.replacement_rules import AdmittedPod, TemplateKey
from rescheduler.model.resources import Resources
from rescheduler.model.selectors import LabelSet
from rescheduler.replacements.reasons import NoReplacement
from rescheduler.replacements.replacement import Replacements

NOW = 1_000.0
WEB = LabelSet({"app": "web"})
GROWN = AdmittedPod(spec=PodSpec(requests=Resources(cpu_milli=700)), labels=WEB)
ADMITTED = CreationAnswer(CreationOutcome.ADMITTED, pod=GROWN)
REFUSED = CreationAnswer(CreationOutcome.REFUSED, "no", AdmittedPod(refusal="no"))
NO_RIGHT = CreationAnswer(CreationOutcome.NO_RIGHT, "cannot create resource")
GATED = CreationAnswer(
    CreationOutcome.ADMITTED, pod=AdmittedPod(spec=PodSpec(gates=("queue.example/hold",)), labels=WEB)
)
UNANSWERED = CreationAnswer(CreationOutcome.UNANSWERED, "503")


def world(cpu="500m", *, kind=b.replicaset, generation=1):
    owner = kind("web").cpu(cpu).set("metadata.generation", generation)
    return b.snapshot(b.node("n1"), owner, kind("web").pod("web-0").cpu("500m").on("n1"), now_s=NOW)


def web(snapshot):
    return next(iter(snapshot.pods.values()))


@pytest.fixture
def kept():
    return DryRunCreations()


def ask(kept, answer, *, snapshot=None, now_s=NOW, read=None):
    snapshot = snapshot or world()
    pod = web(snapshot)
    kept.answered(snapshot, template_of(snapshot, pod), pod, answer, now_s, read=read)


def test_one_answer_is_that_of_every_pod_of_the_template_from_the_next_round_on(kept):
    snapshot = kept.informed(world(), NOW)
    ask(kept, ADMITTED, snapshot=snapshot)
    assert kept.observed(snapshot, web(snapshot)).unread
    later = kept.informed(world(), NOW + 1)
    seen = kept.observed(later, web(later))
    assert (seen.outcome, seen.asked_at_s, seen.unread) == (CreationOutcome.ADMITTED, NOW, False)
    assert Replacements(later).of(web(later)).pod.spec.requests.cpu_milli == 700


def test_an_answer_ends_with_the_template_that_it_was_made_from(kept):
    ask(kept, ADMITTED)
    changed = kept.informed(world(cpu="900m"), NOW + 1)
    assert changed.admitted == {}
    assert kept.observed(changed, web(changed)).outcome is None


@pytest.mark.parametrize(("answer", "lasts_s"), [(ADMITTED, 3_600), (REFUSED, 300), (GATED, 300)])
def test_an_answer_ends_after_its_time(kept, answer, lasts_s):
    ask(kept, answer)
    assert kept.informed(world(), NOW + lasts_s - 1).admitted
    assert not kept.informed(world(), NOW + lasts_s + 1).admitted


def test_a_refusal_means_that_nothing_comes_back(kept):
    ask(kept, REFUSED)
    snapshot = kept.informed(world(), NOW + 1)
    assert "refuses the new pod: no" in Replacements(snapshot).of(web(snapshot)).message


def test_a_pod_that_admission_gates_would_wait_for_another_program(kept):
    ask(kept, GATED)
    snapshot = kept.informed(world(), NOW + 1)
    found = Replacements(snapshot).of(web(snapshot))
    assert found.reason is NoReplacement.TEMPLATE_GATED
    assert "queue.example/hold" in found.message


def creation():
    """A dry-run creation of a template that was just read."""
    return Call(
        does="try_creation", verb=Verb.CREATE, kind=Kind.POD, key=ObjectKey("default", "web-"), dry_run=True
    )


def again(kept, snapshot, now_s):
    return kept.observed(kept.informed(snapshot, now_s), web(snapshot)).again


@pytest.mark.parametrize("answer", [ADMITTED, REFUSED, UNANSWERED])
def test_a_template_that_was_just_read_is_not_read_again(kept, answer):
    ask(kept, answer, read=(read := creation()))
    assert again(kept, world(), NOW + 4.9) is read
    ask(kept, answer, now_s=NOW + 4.9)
    assert again(kept, world(), NOW + 5.1) is None, "its age counts from the reading"
    ask(kept, answer, read=(other := creation()), now_s=NOW + 5.1)
    assert again(kept, world(), NOW + 10) is other


def test_a_template_is_read_again_once_the_cache_shows_a_change_of_its_controller(kept):
    """Of the template the cache keeps only what the rules need: another image shows as a generation."""
    ask(kept, ADMITTED, read=creation())
    assert again(kept, world(generation=2), NOW + 1) is None
    ask(kept, ADMITTED, read=creation(), snapshot=world(generation=1))
    assert again(kept, world(generation=2), NOW + 1) is None, "it was read before or after the change"


@pytest.mark.parametrize(
    "snapshot",
    [world(kind=b.statefulset), world(kind=b.job), world(generation=0)],
    ids=["StatefulSet", "Job", "no generation"],
)
def test_a_template_is_read_each_time_where_pods_differ_or_no_generation_is_known(kept, snapshot):
    ask(kept, ADMITTED, read=creation(), snapshot=snapshot)
    assert again(kept, snapshot, NOW + 1) is None


def test_without_a_template_nothing_is_remembered(kept):
    ask(kept, UNANSWERED)
    assert again(kept, world(), NOW) is None


def test_a_missing_right_is_not_asked_for_again_for_a_minute(kept):
    ask(kept, NO_RIGHT)
    other = b.snapshot(
        b.replicaset("api"),
        b.replicaset("api").pod("api-0").on("n1"),
        b.replicaset("far", "elsewhere"),
        b.replicaset("far", "elsewhere").pod("far-0").on("n1"),
    )
    api, far = sorted(kept.informed(other, NOW + 59).pods.values(), key=lambda p: p.name)
    assert kept.observed(other, api).outcome is CreationOutcome.NO_RIGHT
    assert kept.observed(other, far).outcome is None, "a right may be given by namespace"
    kept.informed(other, NOW + 61)
    assert kept.observed(other, api).outcome is None


@pytest.mark.parametrize(
    ("answer", "lasts_s"), [(ADMITTED, 60.0), (NO_RIGHT, 60.0), (REFUSED, 0.0), (UNANSWERED, 0.0)]
)
def test_the_changes_of_a_hand_over_are_tried_once_a_minute_until_they_are_let_through(kept, answer, lasts_s):
    snapshot = world()
    pod = web(snapshot)
    kept.answered(snapshot, template_of(snapshot, pod), pod, answer, NOW, changes=tried_hand_over(pod))
    tried = [kept.observed(kept.informed(world(), NOW + s), pod).changes_tried for s in (1.0, 59.0, 61.0)]
    assert tried == [s < lasts_s for s in (1.0, 59.0, 61.0)]
    ask(kept, answer, now_s=NOW + 70.0)
    assert not kept.observed(kept.informed(world(), NOW + 71.0), pod).changes_tried, "they were not asked for"


def test_a_deletion_that_was_let_through_counts_for_all_controllers_until_one_fails(kept):
    snapshot = world()
    pod = web(snapshot)
    kept.answered(snapshot, TemplateKey("another", ""), pod, ADMITTED, NOW, changes=tried_deletion(pod))
    seen = kept.observed(kept.informed(world(), NOW + 59.0), pod)
    assert (seen.deletion_tried, seen.changes_tried) == (True, False)
    kept.deletion_failed()
    assert not kept.observed(kept.informed(world(), NOW + 59.0), pod).deletion_tried


def test_answers_by_which_nothing_is_known_are_counted(kept):
    for tries in (1, 2):
        ask(kept, UNANSWERED)
        snapshot = kept.informed(world(), NOW)
        assert kept.observed(snapshot, web(snapshot)).tries == tries
    ask(kept, ADMITTED)
    snapshot = kept.informed(world(), NOW)
    assert kept.observed(snapshot, web(snapshot)).tries == 0


@pytest.mark.parametrize(
    ("kind", "tried"), [("ReplicaSet", True), ("Workflow", False)], ids=["of Kubernetes", "a custom resource"]
)
def test_it_is_tried_only_where_it_is_known_how_the_controller_creates_pods(kept, kind, tried):
    snapshot = b.snapshot(b.replicaset("web"), b.pod("web-0").owner(kind, "web").on("n1"))
    assert (template_of(snapshot, web(snapshot)) is not None) is tried


def beside(kept, *, ready=2, kind=b.statefulset, wanted=3, change=lambda pod: pod, namespace="default"):
    """Whether a web pod would be evicted, where nothing shows its replacement, beside another controller that has so many pods."""
    owner = kind("db", namespace=namespace).replicas(wanted, ready=ready)
    pods = [owner.pod(f"db-{i}").cpu("1").on("n1") for i in range(ready)]
    pods = [*pods[:-1], change(pods[-1])] if pods else []
    own = b.replicaset("web").cpu("1")
    snapshot = b.snapshot(b.node("n1"), own, own.pod("web-0").on("n1"), owner, *pods)
    pod = next(p for p in snapshot.pods.values() if p.name == "web-0")
    kept.answered(snapshot, TemplateKey(pod.controller.uid), pod, NO_RIGHT, NOW)
    return kept.observed(snapshot, pod).refused_beside


def test_a_stateful_set_that_lacks_a_pod_and_waits_for_none_shows_that_pods_are_refused(kept):
    assert "StatefulSet db: 2 of 3 pods exist" in beside(kept)
    assert "0 of 3 pods exist" in beside(kept, ready=0)


def test_one_that_waits_for_a_pod_or_has_all_shows_nothing(kept):
    assert beside(kept, ready=3) == ""
    assert beside(kept, wanted=0, ready=0) == ""
    assert beside(kept, change=lambda pod: pod.deleting()) == ""
    assert beside(kept, change=lambda pod: pod.not_ready()) == ""
    assert beside(kept, namespace="other") == ""
    assert beside(kept, kind=b.replicaset) == "", "its condition would say so"
