"""The reconciler's rounds: what it writes, when it keeps its hands off, and that it never gives up."""

import pytest

from rescheduler.kube.errors import ConflictError, ForbiddenError, NotFoundError
from rescheduler.kube.transport import TransportError
from rescheduler.webhook.certificates import DAY_S, renewed
from rescheduler.webhook.reconciler import (
    CERTIFICATES_EVERY_S,
    CONFIGURATION_EVERY_S,
    RETRY_S,
    Registration,
    WebhookReconciler,
)
from rescheduler.webhook.registration import WebhookSettings, webhooks
from rescheduler.webhook.secret import Stored

HOSTS = WebhookSettings(namespace="rescheduler", port=0).hosts


class Cluster:
    """Secret, configuration and server in memory."""

    def __init__(self):
        self.now_s = 1_800_000_000.0
        self.material = None
        self.version = 1
        self.hooks = ()
        self.writes = 0
        self.served = []
        self.leads = True
        self.gate_keys = {"controller.ns.u1": "room"}
        self.fault = None

    def _check(self):
        if self.fault:
            raise self.fault

    def read(self):
        self._check()
        return Stored(self.material, str(self.version))

    def write(self, *args):
        self._check()
        if len(args) == 1:
            (self.hooks,) = args
            self.writes += 1
            return
        material, version = args
        if version != str(self.version):
            raise ConflictError(409, "Conflict")
        self.material, self.version = material, self.version + 1

    def holds(self, wanted):
        self._check()
        return self.hooks == wanted

    def use(self, certificate, key):
        self.served.append(certificate)


def in_force(reconciler):
    return reconciler.serves and all(one.in_force for one in reconciler.registrations)


def problem(reconciler):
    return any(one.problem for one in reconciler.registrations) or not reconciler.serves


def reconciler_of(cluster, *more):
    settings = WebhookSettings(namespace="rescheduler", port=0)

    def wanted(bundle):
        return None if cluster.gate_keys is None else webhooks(settings, bundle, cluster.gate_keys, {})

    return WebhookReconciler(
        store=cluster, server=cluster, settings=settings, leads=lambda: cluster.leads,
        registrations=(Registration(cluster, wanted, "apply it"), *more), clock=lambda: cluster.now_s,
    )  # fmt: skip


@pytest.fixture
def cluster():
    return Cluster()


def bundle(cluster):
    return {hook.client_config.ca_bundle for hook in cluster.hooks}


def test_the_first_round_makes_everything(cluster):
    reconciler = reconciler_of(cluster)
    assert not in_force(reconciler)
    assert reconciler.step() == min(CERTIFICATES_EVERY_S, CONFIGURATION_EVERY_S)
    assert in_force(reconciler)
    assert cluster.served == [cluster.material.certificate]
    assert bundle(cluster) == {cluster.material.bundle}
    assert "u1" in cluster.hooks[0].match_conditions[-1].expression


def test_a_round_without_change_writes_nothing(cluster):
    reconciler = reconciler_of(cluster)
    for _ in range(5):
        reconciler.step()
        cluster.now_s += 20
    assert (cluster.writes, cluster.version, len(cluster.served)) == (1, 2, 1)


def test_a_switched_controller_is_written_at_once(cluster):
    reconciler = reconciler_of(cluster)
    reconciler.step()
    cluster.gate_keys = {"controller.ns.u2": "room"}
    reconciler.step()
    expression = cluster.hooks[0].match_conditions[-1].expression
    assert "u2" in expression
    assert "u1" not in expression


def test_only_the_leader_writes_but_all_serve(cluster):
    cluster.leads = False
    reconciler = reconciler_of(cluster)
    assert reconciler.step() <= RETRY_S
    assert cluster.hooks == ()
    assert not in_force(reconciler)
    assert len(cluster.served) == 1
    cluster.leads = True
    reconciler.step()
    assert in_force(reconciler)


def test_nothing_is_switched_off_before_the_live_controllers_are_known(cluster):
    reconciler_of(cluster).step()
    before = cluster.hooks
    cluster.gate_keys = None
    restarted = reconciler_of(cluster)
    restarted.step()
    assert cluster.hooks == before
    assert not in_force(restarted)


def test_a_replica_that_is_slower_takes_over_what_the_other_wrote(cluster):
    other = renewed(None, HOSTS, cluster.now_s)
    reconciler = reconciler_of(cluster)
    read = cluster.read

    def overtaken():
        found = read()
        cluster.material, cluster.version = other, 7
        cluster.read = read
        return found

    cluster.read = overtaken
    assert reconciler.step() == 0.0
    reconciler.step()
    assert cluster.material is other
    assert cluster.served == [other.certificate]


def test_a_renewed_certificate_is_served_and_told(cluster):
    reconciler = reconciler_of(cluster)
    reconciler.step()
    cluster.now_s += 61 * DAY_S
    reconciler.step()
    assert len(set(cluster.served)) == 2
    assert bundle(cluster) == {cluster.material.bundle}


def test_what_somebody_else_changed_is_put_right_in_time(cluster):
    reconciler = reconciler_of(cluster)
    reconciler.step()
    cluster.hooks = ()
    cluster.now_s += CONFIGURATION_EVERY_S
    reconciler.step()
    assert len(cluster.hooks) == 2


@pytest.mark.parametrize(
    "fault", [NotFoundError(404, "NotFound"), ForbiddenError(403, "Forbidden"), TransportError("refused")]
)
def test_a_fault_is_a_problem_until_it_is_over(cluster, fault):
    reconciler = reconciler_of(cluster)
    cluster.fault = fault
    assert reconciler.step() == RETRY_S
    assert problem(reconciler)
    assert not in_force(reconciler)
    cluster.fault = None
    reconciler.step()
    assert in_force(reconciler)
    assert not problem(reconciler)


class Missing:
    """A configuration that is not installed."""

    def holds(self, wanted):
        raise NotFoundError(404, "NotFound")


def test_the_gate_is_in_force_though_the_guard_is_not_installed_any_more(cluster):
    reconciler = reconciler_of(cluster, Registration(Missing(), lambda _: (), "apply the guard"))
    assert reconciler.step() == RETRY_S
    gate, guard = reconciler.registrations
    assert (reconciler.serves, gate.in_force, guard.in_force) == (True, True, False)
    assert len(cluster.hooks) == 2


class Kept:
    """A configuration in memory."""

    hooks = None

    def holds(self, wanted):
        return self.hooks == wanted

    def write(self, wanted):
        self.hooks = wanted


def test_a_renewed_authority_is_told_to_every_configuration(cluster):
    guard = Kept()
    reconciler = reconciler_of(cluster, Registration(guard, lambda bundle: (bundle,), "apply the guard"))
    reconciler.step()
    assert guard.hooks == (cluster.material.bundle,)
    before = cluster.material.bundle
    cluster.now_s += 300 * DAY_S
    reconciler.step()
    assert cluster.material.bundle != before
    assert guard.hooks == (cluster.material.bundle,)
    assert bundle(cluster) == {cluster.material.bundle}
