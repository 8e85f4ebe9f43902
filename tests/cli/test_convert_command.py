"""``rescheduler convert`` as people type it: what it prints is a configuration that ``validate`` takes."""

import pytest

POLICY = """apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  pluginConfig:
  - name: RemovePodsViolatingNodeTaints
  plugins:
    deschedule:
      enabled: [RemovePodsViolatingNodeTaints{more}]
"""


@pytest.fixture
def policy(tmp_path):
    def write(more=""):
        path = tmp_path / "policy.yaml"
        path.write_text(POLICY.replace("{more}", more))
        return path

    return write


def test_what_it_prints_is_a_configuration(command, policy, tmp_path):
    done = command("convert", policy())
    assert done.exit_code == 0, done.output
    assert "name: NodeTaints" in done.stdout
    config = tmp_path / "config.yaml"
    config.write_text(done.stdout)
    assert command("validate", config).exit_code == 0


def test_what_has_no_equivalent_is_a_comment_a_warning_and_3_if_asked(command, policy):
    path = policy(", OwnPlugin")
    done = command("convert", "--exit-code", path)
    assert done.exit_code == 3, done.output
    assert "OwnPlugin" in done.stderr
    assert any("OwnPlugin" in line for line in done.stdout.splitlines() if line.startswith("#"))


def test_what_is_no_policy_is_2_with_the_file(command, tmp_path):
    path = tmp_path / "other.yaml"
    path.write_text("kind: Pod\n")
    done = command("convert", path)
    assert (done.exit_code, str(path) in done.stderr) == (2, True)
