"""What an informer knows behaves as one table by namespace and name would."""

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.kube.store import Store
from rescheduler.model.records import Namespace, ObjectKey, Service

records = st.one_of(
    st.builds(Service, namespace=st.sampled_from("ab"), name=st.sampled_from("xyz")),
    st.builds(Namespace, name=st.sampled_from("xyz")),
)


def key_of(record):
    return ObjectKey(getattr(record, "namespace", ""), record.name)


@given(st.lists(st.tuples(st.booleans(), records), max_size=30))
def test_it_behaves_as_one_table(steps):
    known, table = Store(), {}
    for put, record in steps:
        key = key_of(record)
        assert known.get(record) is table.get(key)
        assert (key in known) == (key in table)
        if put:
            assert known.put(record) is table.get(key)
            table[key] = record
        else:
            assert known.pop(key) is table.pop(key, None)
        assert len(known) == len(table)
        assert sorted(known) == sorted(table)
