#!/usr/bin/env python3
"""Writes a CycloneDX bill of materials from Cargo.lock and requirements/worker.lock.

write_sbom.py sbom.cdx.json
"""

import argparse
import hashlib
import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

Component = dict[str, object]


def crates(lock: str) -> list[Component]:
    """The crates that come from a registry; those of this workspace have no checksum."""
    packages = tomllib.loads(lock)["package"]
    return [
        component("cargo", package["name"], package["version"], [package["checksum"]])
        for package in packages
        if "checksum" in package
    ]


def wheels(lock: str) -> list[Component]:
    """One entry for each pinned package, without a digest: the lock allows several files of each."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock, re.MULTILINE)
    return [component("pypi", re.sub(r"[-_.]+", "-", name).lower(), version, []) for name, version in found]


def component(kind: str, name: str, version: str, digests: list[str]) -> Component:
    link = f"pkg:{kind}/{name}@{version}"
    hashes = [{"alg": "SHA-256", "content": digest} for digest in digests]
    one: Component = {"type": "library", "bom-ref": link, "name": name, "version": version, "purl": link}
    return one | ({"hashes": hashes} if hashes else {})


def bill(root: Path) -> dict[str, object]:
    cargo, python = ((root / name).read_text() for name in ("Cargo.lock", "requirements/worker.lock"))
    version = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    components = {str(one["bom-ref"]): one for one in crates(cargo) + wheels(python)}
    # The same locks give the same serial number.
    digest = hashlib.sha256((cargo + python + version).encode()).hexdigest()
    serial = "-".join((digest[:8], digest[8:12], "8" + digest[13:16], "8" + digest[17:20], digest[20:32]))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/expert-cli-lora@{version}",
                "name": "expert-cli",
                "version": version,
                "purl": f"pkg:pypi/expert-cli-lora@{version}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [components[name] for name in sorted(components)],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    document = bill(ROOT)
    options.file.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{options.file}: {len(document['components'])} components")  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main())
