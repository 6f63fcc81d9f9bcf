"""Did the base's own job write this? An Ed25519 signature by OpenSSH, which is wherever nodes are reached, beside the text.

One file holds both: the text, and from the line `-----BEGIN SSH SIGNATURE-----` on what `ssh-keygen -Y sign` made of it. Who
may sign stands in a file of allowed signers (ssh-keygen(1)), under the name `swarm-snapshot`:

    swarm-snapshot namespaces="swarm-snapshot" ssh-ed25519 AAAA…
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from swarm_iac.errors import Refused, SwarmError, ToolMissing
from swarm_iac.printable import printable

#: The name of who signs, and what for: a signature that was made for something else, such as a commit, does not count.
SIGNER = "swarm-snapshot"
_BEGIN = b"-----BEGIN SSH SIGNATURE-----\n"
#: A signature takes a moment; a key that asks for a passphrase is not answered. [s]
_PATIENCE = 20.0


def signed(text: bytes, key: Path) -> bytes:
    """The text with its signature. `key`: a private key, or a public one whose private half an agent holds. Raises SwarmError.

    The text is whole lines, none of which begins a signature.
    """
    assert text.endswith(b"\n") and _BEGIN not in text
    with tempfile.TemporaryDirectory(prefix="swarm-sign-") as made:
        file = Path(made) / "text"
        file.write_bytes(text)
        _keygen("-Y", "sign", "-q", "-f", str(key), "-n", SIGNER, str(file), wrong=f"{key} does not sign")
        return text + file.with_name("text.sig").read_bytes()


def verified(data: bytes, allowed: bytes) -> bytes:
    """The text, if one of the allowed signers signed exactly this. Raises Refused."""
    text, begin, rest = data.partition(_BEGIN)
    if not begin:
        raise Refused("it is not signed", hint="swarm snapshot --key FILE signs it")
    with tempfile.TemporaryDirectory(prefix="swarm-verify-") as made:
        signers, signature = Path(made) / "allowed", Path(made) / "signature"
        signers.write_bytes(allowed)
        signature.write_bytes(begin + rest)
        words = ("-Y", "verify", "-f", str(signers), "-I", SIGNER, "-n", SIGNER, "-s", str(signature))
        try:
            _keygen(*words, sent=text, wrong="its signature is of none of the allowed signers")
        except ToolMissing:
            raise
        except SwarmError as error:
            raise Refused(error.message, hint="it was changed, or signed by somebody else; do not use it") from None
    return text


def _keygen(*words: str, wrong: str, sent: bytes = b"") -> None:
    """Run ssh-keygen without a terminal to ask at. Raises SwarmError that begins with what is `wrong`."""
    try:
        done = subprocess.run(
            ("ssh-keygen", *words), input=sent, capture_output=True, timeout=_PATIENCE, start_new_session=True
        )
    except FileNotFoundError:
        raise ToolMissing("ssh-keygen is not installed", hint="install OpenSSH 8.1 or later") from None
    except subprocess.TimeoutExpired:
        raise SwarmError(f"{wrong}: ssh-keygen did not end", hint="a key with a passphrase needs an ssh-agent") from None
    if done.returncode:
        said = printable(done.stderr.decode(errors="replace").strip().splitlines()[-1] if done.stderr.strip() else "", 200)
        raise SwarmError(f"{wrong}{f': {said}' if said else ''}")
