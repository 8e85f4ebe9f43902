"""Certificates under an injected clock: always trusted by whoever knows the bundle of the round before."""

import datetime as dt
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.webhook.certificates import AUTHORITY_LIFE_S, DAY_S, SERVING_LIFE_S, SETTLE_S, renewed, split

HOSTS = ("rescheduler-webhook.rescheduler.svc", "10.0.0.7")
START = 1_800_000_000.0


def ends_s(pem):
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


def verify(material, bundle, now_s):
    """As an API server does that trusts ``bundle``. Raises if the certificate is not accepted."""
    store = Store(x509.load_pem_x509_certificates(bundle))
    verifier = (
        PolicyBuilder()
        .store(store)
        .time(dt.datetime.fromtimestamp(now_s, dt.UTC))
        .build_server_verifier(x509.DNSName(HOSTS[0]))
    )
    verifier.verify(x509.load_pem_x509_certificate(material.certificate), [])


def test_the_first_material_serves_at_once_and_for_both_hosts():
    material = renewed(None, HOSTS, START)
    verify(material, material.bundle, START)
    names = x509.load_pem_x509_certificate(material.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert names.value.get_values_for_type(x509.DNSName) == [HOSTS[0]]
    assert [str(ip) for ip in names.value.get_values_for_type(x509.IPAddress)] == [HOSTS[1]]


def test_nothing_changes_before_two_thirds_of_the_life():
    material = renewed(None, HOSTS, START)
    assert renewed(material, HOSTS, START) is material
    assert renewed(material, HOSTS, START + SERVING_LIFE_S * 2 / 3 - 10) is material
    later = renewed(material, HOSTS, START + SERVING_LIFE_S * 2 / 3 + 10)
    assert later.certificate != material.certificate
    assert later.authorities == material.authorities


def test_a_new_authority_signs_only_after_it_has_settled():
    due_s = START + AUTHORITY_LIFE_S * 2 / 3 + 10
    material = renewed(renewed(None, HOSTS, START), HOSTS, due_s - 80 * DAY_S)
    both = renewed(material, HOSTS, due_s)
    assert len(both.authorities) == 2
    assert both.authorities[1] == material.authorities[0]
    assert both.certificate == material.certificate, "API servers do not know the new authority yet"
    assert renewed(both, HOSTS, due_s + SETTLE_S - 10) is both
    settled = renewed(both, HOSTS, due_s + SETTLE_S + 10)
    assert settled.certificate != both.certificate
    verify(settled, settled.authorities[0], due_s + SETTLE_S + 10)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.floats(min_value=60, max_value=7 * DAY_S), min_size=5, max_size=25),
    st.sampled_from([0, 60, 238, 245, 371]),
)
def test_the_certificate_is_always_trusted_by_the_bundle_of_the_round_before(steps, age_days):
    now_s = START
    material = renewed(None, HOSTS, now_s)
    for _ in range(age_days // 7):
        now_s += 7 * DAY_S
        material = renewed(material, HOSTS, now_s)
    known = material.bundle
    for step_s in steps:
        now_s += step_s
        known, material = material.bundle, renewed(material, HOSTS, now_s)
        verify(material, known, now_s)
        assert 1 <= len(material.authorities) <= 3
        assert all(ends_s(pem) > now_s for pem in material.authorities)


def test_a_process_that_slept_for_years_begins_anew():
    material = renewed(None, HOSTS, START)
    late_s = START + 3 * AUTHORITY_LIFE_S
    fresh = renewed(material, HOSTS, late_s)
    verify(fresh, fresh.bundle, late_s)


def test_another_host_needs_another_certificate_of_the_same_authority():
    material = renewed(None, HOSTS, START)
    other = renewed(material, (*HOSTS, "hook.example.org"), START)
    assert other.authorities == material.authorities
    assert other.certificate != material.certificate


@pytest.mark.parametrize("part", ["authority_key", "certificate", "key"])
@pytest.mark.parametrize("damage", [b"", b"-----BEGIN NOTHING-----"])
def test_damaged_material_is_replaced(part, damage):
    material = renewed(None, HOSTS, START)
    fresh = renewed(replace(material, **{part: damage}), HOSTS, START)
    verify(fresh, fresh.bundle, START)
    assert fresh.key


def test_keys_that_belong_to_another_certificate_are_replaced():
    mine, other = renewed(None, HOSTS, START), renewed(None, HOSTS, START)
    for mixed in (replace(mine, key=other.key), replace(mine, authority_key=other.authority_key)):
        fresh = renewed(mixed, HOSTS, START)
        assert fresh != mixed
        verify(fresh, fresh.bundle, START)


def made_by_somebody_else(*extensions):
    """A certificate that is valid and lacks what those of this product have; and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody else")])
    begins, ends = (dt.datetime.fromtimestamp(START + days * DAY_S, dt.UTC) for days in (-1, 90))
    builder = x509.CertificateBuilder(name, name, key.public_key(), 5, begins, ends)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    form = serialization.PrivateFormat.PKCS8
    return pem, key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def test_certificates_of_somebody_else_are_replaced():
    material = renewed(None, HOSTS, START)
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS])
    for pem, key in (made_by_somebody_else(), made_by_somebody_else(names)):
        serving = replace(material, certificate=pem, key=key)
        signing = replace(material, authorities=(pem, *material.authorities), authority_key=key)
        for stored in (serving, signing):
            fresh = renewed(stored, HOSTS, START)
            verify(fresh, fresh.bundle, START)
            assert fresh.certificate not in (pem, b"")


def test_a_bundle_is_split_into_what_it_was_made_of():
    first, second = renewed(None, HOSTS, START), renewed(None, HOSTS, START)
    assert split(first.bundle + second.bundle) == (*first.authorities, *second.authorities)
