"""How plugins are found, and what they may offer."""

from __future__ import annotations

from memoranda.plugins.hookspecs import (
    API_VERSION,
    HOOKS,
    KINDS,
    Backend,
    CommandSpec,
    EmbeddingsSpec,
    FactExtractorSpec,
    IntegrationSpec,
    ItemTypeSpec,
    ObserverSpec,
    RankerSpec,
    RerankerSpec,
    Spec,
    SummarizerSpec,
    TemplateSpec,
    TokenCounterSpec,
    WrapperSpec,
    hookimpl,
)
from memoranda.plugins.installing import how_to_install
from memoranda.plugins.loading import Plugin
from memoranda.plugins.registry import Registry, default_registry, embedder

__all__ = [
    "API_VERSION", "HOOKS", "KINDS", "Backend", "CommandSpec", "EmbeddingsSpec", "FactExtractorSpec", "IntegrationSpec",
    "ItemTypeSpec", "ObserverSpec", "Plugin", "RankerSpec", "Registry", "RerankerSpec", "Spec", "SummarizerSpec",
    "TemplateSpec", "TokenCounterSpec", "WrapperSpec", "default_registry", "embedder", "hookimpl", "how_to_install",
]  # fmt: skip
