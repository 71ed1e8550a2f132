"""`dsconfig doctor` on simulated machines: files below a folder, an environment, and the output of commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dsconfig.cli import main
from dsconfig.cli.doctor import machine as machine_module
from dsconfig.cli.doctor.examine_machine import NO_NEEDS, ConfigNeeds, MachineFact, examine_machine
from dsconfig.cli.doctor.machine import Machine

A100 = "NVIDIA A100-SXM4-80GB, 81920, 8.0\n"
V100 = "Tesla V100-SXM2-32GB, 32768, 7.0\n"
NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release {}, V{}.131\n"
MEMORY = "MemTotal:       528280000 kB\nMemFree:        12 kB\nMemAvailable:   500000000 kB\n"
BUILT = """version='0.16.4'
installed_ops={{'cpu_adam': True, 'fused_adam': {fused}, 'async_io': False}}
accelerator_name='cuda'
torch_info={{'version': '2.5', 'bf16_support': True, 'cuda_version': '12.4'}}
"""


class Simulated:
    """A machine below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.packages = root / "site-packages"
        self.packages.mkdir(parents=True)
        self.environ: dict[str, str] = {"PATH": "/usr/bin", "HOME": "/root"}
        self.commands: dict[str, str] = {}
        self.lock_limit: int | None = None
        self.platform = "linux"

    def write(self, name: str, text: str = "", *, executable: bool = False) -> None:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        if executable:
            path.chmod(0o755)

    def install(self, **versions: str) -> None:
        for name, version in versions.items():
            (self.packages / f"{name}-{version}.dist-info").mkdir()

    def run(self, words: Sequence[str]) -> str | None:
        return self.commands.get(os.path.basename(words[0]))

    def machine(self) -> Machine:
        return Machine(
            str(self.root),
            self.environ,
            self.run,
            [str(self.packages)],
            lambda: self.lock_limit,
            self.platform,
        )

    def items(self, config: Mapping[str, Any] | None = None, ranks: int | None = None) -> list[MachineFact]:
        needs = NO_NEEDS if config is None else ConfigNeeds(dict(config), ranks)
        return list(examine_machine(self.machine(), needs))


@pytest.fixture
def node(tmp_path: Path) -> Simulated:
    """A node with all that DeepSpeed needs."""
    node = Simulated(tmp_path / "node")
    node.install(deepspeed="0.19.8", torch="2.5.1+cu124", numpy="2.1.0", ninja="1.11.1")
    node.write("site-packages/torch/version.py", "cuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n")
    node.commands = {"nvidia-smi": A100 * 8, "nvcc": NVCC.format("12.4", "12.4")}
    node.write("/proc/meminfo", MEMORY)
    node.write("/proc/mounts", "overlay / overlay rw 0 0\n/dev/nvme0n1 /local ext4 rw 0 0\n")
    node.write("/usr/bin/g++", executable=True)
    node.write("/usr/include/libaio.h")
    (node.root / "local").mkdir()
    return node


def problems(items: list[MachineFact]) -> list[str]:
    return [
        f"{each.topic} {each.status}: {each.message}" for each in items if each.status in ("warning", "error")
    ]


def offload(device: str, path: str | None = None) -> dict[str, Any]:
    section = {"device": device} | ({} if path is None else {"nvme_path": path})
    return {
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {"stage": 3, "offload_optimizer": section},
    }


def test_a_complete_node_has_no_problems(node: Simulated) -> None:
    assert problems(node.items()) == []
    messages = [each.message for each in node.items()]
    assert "8 x NVIDIA A100-SXM4-80GB, 80.0 GiB" in messages
    assert "CUDA toolkit 12.4" in messages
    assert "503.8 GiB host memory, 476.8 GiB available" in messages


def test_an_empty_machine_is_unknown_and_no_error(tmp_path: Path) -> None:
    items = Simulated(tmp_path / "empty").items()
    assert [each for each in items if each.status == "error"] == []
    assert {each.topic for each in items if each.status == "unknown"} == {"gpu", "memory"}
    assert any("DeepSpeed is not installed" in each for each in problems(items))


def test_versions_that_do_not_work_together(node: Simulated) -> None:
    for each in list(node.packages.iterdir()):
        if each.name.endswith(".dist-info"):
            each.rmdir()
    node.install(deepspeed="0.14.0", torch="2.5.1", ninja="1.11", numpy="2.0.1")
    found = problems(node.items())
    assert any(
        "advisory `import-on-torch-2.4`" in each and each.startswith("versions error") for each in found
    )
    assert any("advisory `launcher-with-numpy-2`" in each for each in found)


@pytest.mark.parametrize(
    ("toolkit", "cuda", "status"),
    [
        ("12.4", "12.4", "ok"),
        ("12.1", "12.4", "ok"),
        ("11.8", "12.4", "error"),
        ("13.0", "12.4", "error"),
        ("13.0", "13.1", "error"),
    ],
)
def test_toolkit_against_pytorch(node: Simulated, toolkit: str, cuda: str, status: str) -> None:
    node.write("site-packages/torch/version.py", f"cuda = {cuda!r}\n")
    node.commands["nvcc"] = NVCC.format(toolkit, toolkit)
    assert [each.status for each in node.items() if each.message.startswith("CUDA toolkit")] == [status]
    node.environ["DS_SKIP_CUDA_CHECK"] = "1"
    assert "error" not in {each.status for each in node.items()}


def test_toolkit_from_its_folder(node: Simulated) -> None:
    del node.commands["nvcc"]
    assert any("no CUDA toolkit" in each for each in problems(node.items()))
    node.write("/usr/local/cuda/version.json", '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}')
    assert problems(node.items()) == []


def test_ops_built_for_another_pytorch(node: Simulated) -> None:
    node.write("site-packages/deepspeed/git_version_info_installed.py", BUILT.format(fused=True))
    assert problems(node.items()) == []
    (node.packages / "torch-2.5.1+cu124.dist-info").rename(node.packages / "torch-2.6.0.dist-info")
    assert any(
        "were built with PyTorch 2.5, but 2.6.0 is installed" in each for each in problems(node.items())
    )


def test_ops_that_a_config_needs(node: Simulated) -> None:
    (node.root / "usr/bin/g++").unlink()
    found = problems(node.items(offload("cpu")))
    assert found == [
        "ops error: no C++ compiler was found: DeepSpeed cannot compile ops, which `cpu_adam` needs"
    ]
    node.write("site-packages/deepspeed/git_version_info_installed.py", BUILT.format(fused=False))
    assert problems(node.items(offload("cpu"))) == []


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        ("0,2", []),
        (
            "0,8,1",
            [
                "gpu error: CUDA_VISIBLE_DEVICES=0,8,1: there is no GPU 8, so CUDA uses the first 1 of the list"
            ],
        ),
        ("", ["gpu warning: CUDA_VISIBLE_DEVICES= hides every GPU"]),
        ("-1", ["gpu warning: CUDA_VISIBLE_DEVICES=-1 hides every GPU"]),
        ("GPU-1f2e,GPU-3c4d", []),
    ],
)
def test_visible_devices(node: Simulated, selected: str, expected: list[str]) -> None:
    node.environ["CUDA_VISIBLE_DEVICES"] = selected
    assert problems(node.items()) == expected


def test_ranks_and_precision_of_a_config(node: Simulated) -> None:
    node.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
    assert problems(node.items({"bf16": {"enabled": True}}, 4)) == [
        "gpu warning: the job has 4 ranks, but only 2 GPUs are visible"
    ]
    node.environ.pop("CUDA_VISIBLE_DEVICES")
    node.commands["nvidia-smi"] = V100
    assert any(
        "needs compute capability 8.0" in each for each in problems(node.items({"bf16": {"enabled": True}}))
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/local", []),
        ("/local/swap", []),
        (
            "swap",
            ["nvme warning: `offload_optimizer.nvme_path` is `swap`, which depends on the working directory"],
        ),
        ("/proc/meminfo", ["nvme error: `offload_optimizer.nvme_path` is /proc/meminfo, which is no folder"]),
    ],
)
def test_path_of_the_drive(node: Simulated, path: str, expected: list[str]) -> None:
    found = [each for each in problems(node.items(offload("nvme", path))) if "are free" not in each]
    assert found == expected


@pytest.mark.parametrize(
    ("kind", "word"), [("tmpfs", "O_DIRECT"), ("nfs4", "no local drive"), ("fuse.s3fs", "no local drive")]
)
def test_file_system_of_the_drive(node: Simulated, kind: str, word: str) -> None:
    node.write("/proc/mounts", f"overlay / overlay rw 0 0\nx /local {kind} rw 0 0\n")
    assert any(word in each for each in problems(node.items(offload("nvme", "/local/swap"))))


def test_nvme_needs_libaio(node: Simulated) -> None:
    (node.root / "usr/include/libaio.h").unlink()
    assert any("libaio is not installed" in each for each in problems(node.items(offload("nvme", "/local"))))
    node.environ["CONDA_PREFIX"] = "/opt/conda"
    node.write("/opt/conda/include/libaio.h")
    assert not any("libaio" in each for each in problems(node.items(offload("nvme", "/local"))))


def test_memory_of_a_container(node: Simulated) -> None:
    node.write("/sys/fs/cgroup/memory.max", f"{64 << 30}\n")
    node.write("/sys/fs/cgroup/memory.current", f"{4 << 30}\n")
    assert "64.0 GiB host memory, 60.0 GiB available" in [each.message for each in node.items()]
    node.write("/sys/fs/cgroup/memory.max", "max\n")
    assert "503.8 GiB host memory, 476.8 GiB available" in [each.message for each in node.items()]


def test_limit_of_locked_memory(node: Simulated) -> None:
    node.lock_limit = 64 << 10
    assert [each.status for each in node.items() if "ulimit -l" in each.message] == ["info"]
    locked = [each for each in node.items(offload("nvme", "/local")) if "ulimit -l" in each.message]
    assert [(each.status, "64 KiB" in each.message) for each in locked] == [("warning", True)]


def test_hostfile_and_ssh(node: Simulated) -> None:
    node.write("/job/hostfile", "worker-0 slots=8\nworker-1 8\nworker-2 slots=8\n")
    found = problems(node.items())
    assert any("/job/hostfile:2" in each for each in found)
    assert any("pdsh is not installed" in each for each in found)
    assert any("neither a key nor a config" in each for each in found)
    node.write("/root/.ssh/id_ed25519")
    node.write("/usr/bin/pdsh", executable=True)
    node.write("/job/hostfile", "worker-0 slots=8\nworker-1 slots=8\n")
    assert problems(node.items()) == []


def test_environment_variables(node: Simulated) -> None:
    node.environ |= {"NCCL_DEBUG": "INFO", "ACCELERATE_API_KEY": "hidden", "RANK": "0", "WORLD_SIZE": "8"}
    items = node.items()
    assert problems(items) == ["environment error: RANK is set, but MASTER_ADDR and MASTER_PORT are not"]
    shown = next(each.message for each in items if "NCCL_DEBUG=INFO" in each.message)
    assert "hidden" not in shown


def test_a_mac(tmp_path: Path) -> None:
    mac = Simulated(tmp_path / "mac")
    mac.platform = "darwin"
    mac.install(deepspeed="0.19.8", torch="2.13.0", ninja="1.11")
    mac.commands["sysctl"] = f"{32 << 30}\n"
    messages = [each.message for each in mac.items()]
    assert "32.0 GiB host memory, 32.0 GiB available" in messages
    assert any("macOS has no CUDA" in each for each in messages)
    assert not any(each.status == "error" for each in mac.items())


def test_a_windows_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = Simulated(tmp_path / "windows")
    windows.platform = "win32"
    windows.environ = {"PATH": f"/tools;{os.sep}cuda", "PATHEXT": ".COM;.EXE"}
    windows.install(deepspeed="0.16.4", torch="2.5.1+cu124", ninja="1.11")
    windows.write("/tools/g++.exe", executable=True)
    monkeypatch.delattr(os, "statvfs")
    monkeypatch.setitem(sys.modules, "resource", None)
    assert machine_module.memory_lock_limit() is None
    items = windows.items(offload("nvme", "/local"))
    assert any(each.message == "C++ compiler: /tools/g++.exe" for each in items)
    assert {each.topic for each in items if each.status == "unknown"} == {"gpu", "memory", "nvme"}
    assert not any("working directory" in each.message for each in items)


def test_hostile_files_are_data(node: Simulated) -> None:
    for text in (
        "cuda = __import__('os').system('false')",
        "def (",
        "\x00",
        "cuda = " + "(" * 5000,
        "cuda = [1]",
    ):
        node.write("site-packages/torch/version.py", text)
        node.write("site-packages/deepspeed/git_version_info_installed.py", text)
        node.items()
    node.write(
        "site-packages/deepspeed/git_version_info_installed.py", "installed_ops = [1]\ntorch_info = 3\n"
    )
    node.commands["nvidia-smi"] = "garbage\n\n, ,\n"
    node.write("/proc/meminfo", "nothing")
    node.write("/proc/mounts", "x\n\n")
    node.items({"zero_optimization": [], "optimizer": 3})


def test_the_command(
    node: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine_module, "Machine", node.machine)
    monkeypatch.chdir(tmp_path)
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.startswith("versions\n  ok       deepspeed 0.19.8, torch 2.5.1+cu124")
    config = tmp_path / "ds_config.json"
    config.write_text(json.dumps(offload("nvme", "/no/such") | {"train_batch_size": 8}), "utf-8")
    (node.root / "usr/bin/g++").unlink()
    assert main(["doctor", str(config), "--target", "0.17.6", "--output-format", "json"]) == 1
    items = json.loads(capsys.readouterr().out)["items"]
    assert {"topic", "status", "message", "help"} == items[0].keys()
    assert any("advisory `nvme-wait-blocks-python`" in each["message"] for each in items)
    config.write_text('{"train_batch_size": 8, "no_such_key": 1, "bf16": 3}', "utf-8")
    assert main(["doctor", str(config), "--target", "0.17.6"]) == 1
    assert "with DeepSpeed 0.17.6" in capsys.readouterr().out
    assert main(["doctor", str(tmp_path / "absent.json")]) == 2


def test_imports_neither_deepspeed_nor_torch() -> None:
    code = (
        "import sys\nfrom dsconfig.cli import main\nmain(['doctor'])\n"
        "assert not {'torch', 'deepspeed', 'transformers'} & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
