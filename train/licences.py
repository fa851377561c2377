"""Which licences the corpus accepts, read from a package's own metadata."""

import re
from email.message import Message

PERMISSIVE = re.compile(
    r"\b(MIT|X11|Expat|BSD|[023]-?Clause|Apache|ASL|ISC|PSF|Python Software Foundation|Python-2\.0|zlib|HPND"
    r"|MIT-CMU|Unlicen[sc]e|Public[- ]Domain|0BSD|CC0|Boost|BSL-1\.0|PostgreSQL|curl|libtiff|libpng|FTL|TCL"
    r"|NCSA|OpenLDAP"
    r"|Historical Permission Notice|permissive|Ruby|BSD-\w+|Biopython)\b",
    re.I,
)
COPYLEFT = re.compile(
    r"\b(A|L)?GPL|GNU (Lesser |Library |Affero )?(General )?Public|\bMPL|Mozilla Public|\bEPL\b"
    r"|Eclipse Public|EUPL|CDDL|CeCILL|SSPL|BUSL|Business Source|Commons Clause|CC-BY-(NC|SA|ND)"
    r"|NonCommercial|Proprietary",
    re.I,
)


def is_permissive(licence: str) -> bool:
    """Accept a licence that names a permissive one and no copyleft or proprietary one."""
    return bool(PERMISSIVE.search(licence)) and not COPYLEFT.search(licence)


def has_copyleft_header(text: str) -> bool:
    """Tell whether a single file carries a licence of its own that we do not take."""
    return bool(COPYLEFT.search(text[:3000]))


def wheel_licence(metadata: Message) -> str:
    """Read the licence of a wheel: the SPDX expression, else the classifiers, else the free text."""
    expression = str(metadata.get("License-Expression", "")).strip()
    if expression:
        return expression
    classifiers = [str(c) for c in metadata.get_all("Classifier", []) if str(c).startswith("License ::")]
    named = [c.split(" :: ")[-1] for c in classifiers if not c.endswith("OSI Approved")]
    if named:
        return " / ".join(named)
    return re.sub(r"\s+", " ", str(metadata.get("License", "")))[:120].strip()


def debian_licence(copyright_file: str) -> str:
    """Read the licence of a Debian source package: the one its `Files: *` paragraph names."""
    for paragraph in re.split(r"\n\s*\n", copyright_file):
        if re.search(r"^Files:\s*\*\s*$", paragraph, re.M):
            found = re.search(r"^License:\s*(.+)$", paragraph, re.M)
            return found.group(1).strip() if found else ""
    if COPYLEFT.search(copyright_file):
        return "unstructured, names a copyleft licence"
    found = PERMISSIVE.search(copyright_file)
    return f"{found.group(0)} (unstructured copyright file)" if found else ""
