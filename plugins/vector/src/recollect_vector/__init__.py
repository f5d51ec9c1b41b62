"""Recollect's vector store and embeddings."""
