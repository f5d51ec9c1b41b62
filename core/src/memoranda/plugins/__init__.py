"""How plugins are found, what they may offer, and how a URL becomes a store."""

from __future__ import annotations

from memoranda.plugins.hookspecs import (
    API_VERSION,
    HOOKS,
    KINDS,
    Backend,
    CommandSpec,
    EmbeddingsSpec,
    IntegrationSpec,
    ItemTypeSpec,
    ObserverSpec,
    RerankerSpec,
    Spec,
    SummarizerSpec,
    TemplateSpec,
    TokenCounterSpec,
    hookimpl,
)
from memoranda.plugins.installing import how_to_install
from memoranda.plugins.loading import Plugin
from memoranda.plugins.opening import URL_VARIABLE, data_folder, default_url, embedder, open
from memoranda.plugins.registry import Registry, default_registry

__all__ = [
    "API_VERSION",
    "HOOKS",
    "KINDS",
    "URL_VARIABLE",
    "Backend",
    "CommandSpec",
    "EmbeddingsSpec",
    "IntegrationSpec",
    "ItemTypeSpec",
    "ObserverSpec",
    "Plugin",
    "Registry",
    "RerankerSpec",
    "Spec",
    "SummarizerSpec",
    "TemplateSpec",
    "TokenCounterSpec",
    "data_folder",
    "default_registry",
    "default_url",
    "embedder",
    "hookimpl",
    "how_to_install",
    "open",
]
