"""The forms of TF_CONFIG in the guide give what TensorFlow reads, for every worker."""

import json
import os
import pathlib
import re
import stat
import subprocess

import pytest

GUIDE = (pathlib.Path(__file__).parents[2] / "docs" / "guides" / "devices.md").read_text()


@pytest.mark.parametrize("index", [0, 1])
def test_kubernetes(index):
    (block,) = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    folded = block.split(">-\n")[1]
    command = " ".join(line.strip() for line in folded.splitlines())
    command = command.replace("exec python train.py", 'printf %s "$TF_CONFIG"')
    environment = {**os.environ, "JOB_COMPLETION_INDEX": str(index)}
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    config = json.loads(done.stdout)
    assert config["task"] == {"type": "worker", "index": index}
    # The pods of an indexed Job are <job>-<index>, found in the domain of their service.
    names = re.findall(r"name: (\w+)\}", block) + re.findall(r"subdomain: (\w+)", block)
    assert set(names) == {"train"}
    assert config["cluster"]["worker"] == [f"train-{i}.train:2222" for i in range(2)]
    assert re.findall(r"(?:completions|parallelism): (\d+)", block) == ["2", "2"]


def test_slurm(tmp_path, monkeypatch):
    (block,) = [b for b in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if "SLURM" in b]
    names = {}
    monkeypatch.delenv("SLURM_PROCID", raising=False)
    exec(compile(block, "devices.md", "exec"), names)
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\n[ "$3" = "node[3-4]" ] && printf "node3\\nnode4\\n"\n')
    scontrol.chmod(scontrol.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    found = names["slurm_config"]({"SLURM_JOB_NODELIST": "node[3-4]", "SLURM_PROCID": "1"})
    assert json.loads(found) == {
        "cluster": {"worker": ["node3:2222", "node4:2222"]},
        "task": {"type": "worker", "index": 1},
    }
