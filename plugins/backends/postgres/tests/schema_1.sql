-- The tables of the first schema version, as the release with it created them.
CREATE SEQUENCE memory_items_added;
CREATE TABLE memory_items (
    added BIGINT NOT NULL DEFAULT nextval('memory_items_added'),
    token BIGINT NOT NULL DEFAULT 0,
    moment TIMESTAMP NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 1,
    archived BOOLEAN NOT NULL DEFAULT false,
    hidden BOOLEAN NOT NULL GENERATED ALWAYS AS (deleted <> 0) STORED,
    id TEXT COLLATE "C" NOT NULL,
    content TEXT NOT NULL,
    memory_type TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    metadata JSONB NOT NULL,
    extra_json TEXT NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL,
    updated_at TEXT COLLATE "C",
    user_id TEXT COLLATE "C",
    session_id TEXT COLLATE "C",
    task_id TEXT COLLATE "C",
    agent_id TEXT COLLATE "C",
    exact_metadata TEXT,
    folded TEXT COLLATE "C",
    term_keys INTEGER[] NOT NULL,
    namespace TEXT COLLATE "C" NOT NULL DEFAULT '',
    expires_at TEXT COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (id)
);
CREATE INDEX memory_items_time ON memory_items (moment, added);
CREATE INDEX memory_items_order ON memory_items (added);
CREATE INDEX memory_items_by_user ON memory_items (user_id, moment, added, session_id, hidden, archived) INCLUDE (expires_at) WHERE user_id IS NOT NULL;
CREATE INDEX memory_items_by_session ON memory_items (session_id, moment, added, user_id, hidden, archived) INCLUDE (expires_at) WHERE session_id IS NOT NULL;
CREATE INDEX memory_items_said ON memory_items (session_id, added, user_id) WHERE session_id IS NOT NULL AND added > 0;
CREATE INDEX memory_items_by_task ON memory_items (task_id, moment, added, hidden, archived) INCLUDE (expires_at) WHERE task_id IS NOT NULL;
CREATE INDEX memory_items_by_agent ON memory_items (agent_id, moment, added, hidden, archived) INCLUDE (expires_at) WHERE agent_id IS NOT NULL;
CREATE INDEX memory_items_by_namespace ON memory_items (namespace, moment, added, hidden, archived) INCLUDE (expires_at) WHERE namespace > '';
CREATE INDEX memory_items_expiry ON memory_items (expires_at) WHERE expires_at > '';
CREATE INDEX memory_items_bin ON memory_items (moment, added) WHERE hidden;
CREATE INDEX memory_items_terms ON memory_items USING gin (term_keys) WITH (gin_pending_list_limit = 512);
CREATE TABLE memory_schema (version INTEGER NOT NULL, partitions INTEGER NOT NULL, terms TEXT NOT NULL, vector_model TEXT, vector_dimension INTEGER);
