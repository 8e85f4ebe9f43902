"""A proof of the gate serves all moves of a controller for as long as its key is stored without a break, and no longer."""

import pytest

from rescheduler.coordination.gate_proofs import FRESH_S, GateProofs
from rescheduler.model.controller_key import controller_key
from rescheduler.model.records import OwnerRef

WEB = OwnerRef("apps/v1", "ReplicaSet", "web", "rs")
KEY = {controller_key("shop", "rs"): "room"}
OTHER = {controller_key("shop", "rs"): "another room"}


def proofs(stored=KEY):
    found = GateProofs()
    found.follow(stored, KEY, ends=False)
    return found


def prove(found, asked_s, answered_s, *, proven=True):
    found.asks(WEB, "shop", asked_s)
    found.answered(WEB, "shop", answered_s, proven=proven)


def since(found, now_s):
    return found.of(WEB, "shop", now_s).since_s


def test_a_later_proof_goes_on_with_the_same_row():
    found = proofs()
    prove(found, 10.0, 10.5)
    assert since(found, 14.0) == 10.5
    found.follow(OTHER, OTHER, ends=False)  # the key names another room of the same controller
    prove(found, 14.0, 14.1)
    assert since(found, 18.0) == 10.5


def test_one_api_server_is_what_the_last_answer_says():
    found = proofs()
    assert not found.of(WEB, "shop", 9.0).single
    found.asks(WEB, "shop", 10.0)
    found.answered(WEB, "shop", 10.1, proven=True, single=True)
    assert found.of(WEB, "shop", 11.0).single
    assert not found.of(WEB, "shop", 10.1 + FRESH_S).single, "a proof that is not relied on"
    prove(found, 12.0, 12.1)
    assert not found.of(WEB, "shop", 13.0).single
    assert since(found, 13.0) == 10.1


def test_an_old_proof_is_not_relied_on_until_there_is_another_one():
    found = proofs()
    prove(found, 10.0, 10.5)
    assert since(found, 10.0 + FRESH_S) == 10.5
    assert since(found, 10.1 + FRESH_S) == 0.0
    prove(found, 16.0, 16.1)
    assert since(found, 16.2) == 10.5


@pytest.mark.parametrize(
    ("stored", "wanted", "ends"),
    [({}, KEY, False), (None, KEY, False), (KEY, {}, False), (KEY, KEY, True)],
    ids=["not stored", "not known", "not wanted", "ends"],
)
@pytest.mark.parametrize("answered", [True, False], ids=["proven before", "asked before"])
def test_nothing_is_known_after_a_break_although_the_key_is_back(stored, wanted, ends, answered):
    found = proofs()
    found.asks(WEB, "shop", 10.0)
    if answered:
        found.answered(WEB, "shop", 10.1, proven=True)
    found.follow(stored, wanted, ends=ends)
    found.follow(KEY, KEY, ends=False)
    if not answered:
        found.answered(WEB, "shop", 10.1, proven=True)  # it may have seen the gate from before the break
    assert since(found, 10.2) == 0.0


def test_a_proof_without_a_stored_key_counts_for_nothing():
    found = proofs(stored={})
    prove(found, 10.0, 10.1)
    found.follow(KEY, KEY, ends=False)
    assert since(found, 10.2) == 0.0


def test_a_failed_proof_ends_the_row_and_is_told_while_the_key_is_wanted():
    found = proofs()
    prove(found, 10.0, 10.1)
    prove(found, 11.0, 13.0, proven=False)
    assert found.of(WEB, "shop", 13.0) == (True, 0.0, 13.0, False, "")
    prove(found, 13.1, 13.2)
    assert found.of(WEB, "shop", 13.2) == (True, 13.2, 0.0, False, "")
    prove(found, 14.0, 16.0, proven=False)
    found.follow({}, KEY, ends=False)  # the key cannot be stored, and that is why
    assert found.of(WEB, "shop", 17.0) == (False, 0.0, 16.0, False, "")
    assert list(found.machines())
    found.follow({}, {}, ends=False)
    assert found.of(WEB, "shop", 17.0) == (False, 0.0, 0.0, False, "")
    assert not list(found.machines())


def test_pods_of_another_namespace_have_a_gate_of_their_own():
    found = proofs()
    prove(found, 10.0, 10.1)
    assert found.of(WEB, "other", 10.2) == (False, 0.0, 0.0, False, "")


def test_a_key_of_all_namespaces_serves_as_well():
    everywhere = {controller_key("", "rs"): "room"}
    found = GateProofs()
    found.follow(everywhere, everywhere, ends=False)
    prove(found, 10.0, 10.1)
    assert since(found, 10.2) == 10.1


def test_a_refused_pod_of_the_dry_run_is_no_proof_and_is_told_until_the_next_answer():
    found = proofs()
    prove(found, 10.0, 10.1)
    found.asks(WEB, "shop", 11.0)
    found.refused(WEB, "shop", "422 Invalid")
    because = "the API server refuses the pod of the dry run: 422 Invalid"
    assert found.of(WEB, "shop", 11.2) == (True, 10.1, 0.0, False, because)
    assert found.of(WEB, "shop", 16.0) == (True, 0.0, 0.0, False, because)
    prove(found, 17.0, 17.1)
    assert found.of(WEB, "shop", 17.2) == (True, 10.1, 0.0, False, "")
