"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, WrapperSpec, hookimpl


@hookimpl
def memoranda_wrappers() -> list[WrapperSpec]:
    """Offer encryption of any store, and its ciphertext as it is."""
    return [
        WrapperSpec(
            "encrypt",
            prefix="encrypted",
            target="memoranda_encrypt.opening:encrypted",
            api=1,
            summary="Encrypts a store with a key per user.",
        ),
        WrapperSpec(
            "ciphertext",
            prefix="ciphertext",
            target="memoranda_encrypt.opening:ciphertext",
            api=1,
            summary="Reads an encrypted store without its keys, such as for an export of ciphertext.",
        ),
    ]


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the commands for keys, and those that encrypt and decrypt a store in place."""
    return [
        CommandSpec(
            "keys",
            target="memoranda_encrypt.commands:keys",
            api=1,
            summary="Make, list, rotate and destroy the keys of encrypted stores.",
            section="Stores",
            examples=("keys new master.key", "keys list", "keys rotate --user ada", "keys destroy ada"),
        ),
        CommandSpec(
            "encrypt",
            target="memoranda_encrypt.commands:encrypt",
            api=1,
            summary="Encrypt an existing store in place.",
            section="Stores",
            examples=("encrypt --store sqlite:///agent.db",),
        ),
        CommandSpec(
            "decrypt",
            target="memoranda_encrypt.commands:decrypt",
            api=1,
            summary="Decrypt a store in place.",
            section="Stores",
            examples=("decrypt --store sqlite:///agent.db",),
        ),
    ]
