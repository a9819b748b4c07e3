"""A licence as the metadata of a model card names it."""

import json
import re
from collections.abc import Iterator

# https://huggingface.co/docs/hub/repositories-licenses, without those that SPDX has no identifier for.
_HUB = frozenset(
    {
        "afl-3.0", "agpl-3.0", "apache-2.0", "artistic-2.0", "bsd-2-clause", "bsd-3-clause",
        "bsd-3-clause-clear", "bsl-1.0", "c-uda", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0",
        "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0",
        "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0", "cc-by-sa-3.0",
        "cc-by-sa-4.0", "cc0-1.0", "cdla-permissive-1.0", "cdla-permissive-2.0", "cdla-sharing-1.0",
        "ecl-2.0", "epl-1.0", "epl-2.0", "etalab-2.0", "eupl-1.1", "eupl-1.2", "gemma", "gfdl", "gpl-2.0",
        "gpl-3.0", "isc", "lgpl-2.1", "lgpl-3.0", "lgpl-lr", "llama2", "llama3", "llama3.1", "llama3.2",
        "llama3.3", "llama4", "lppl-1.3c", "mit", "mpl-2.0", "ms-pl", "ncsa", "odbl", "odc-by", "ofl-1.1",
        "openrail", "osl-3.0", "other", "pddl", "postgresql", "unknown", "unlicense", "wtfpl", "zlib",
    }
)  # fmt: skip
# Of these the Hub has one identifier for all versions.
_ANY_VERSION = ("c-uda", "gfdl", "lgpllr", "odbl", "odc-by", "pddl")
_RENAMED = {"lgpllr": "lgpl-lr"}


def card_lines(name: str) -> Iterator[str]:
    """Of the front matter; the Hub refuses a card whose `license` it does not know."""
    lowered = name.strip().lower()
    plain = re.sub(r"(-only|-or-later|\+)$", "", lowered)
    any_version = next((it for it in _ANY_VERSION if re.fullmatch(rf"{it}(-\d[\d.]*)?", plain)), plain)
    known = _RENAMED.get(any_version, any_version)
    if known in _HUB:
        yield f"license: {json.dumps(known)}"
    else:
        yield 'license: "other"'
        yield f"license_name: {json.dumps(re.sub(r'[^a-z0-9.-]+', '-', lowered).strip('-') or 'other')}"
