BEGIN;
CREATE TABLE memory_items (
    id TEXT PRIMARY KEY NOT NULL,
    content TEXT NOT NULL,
    memory_type TEXT NOT NULL,
    status TEXT NOT NULL,
    metadata TEXT NOT NULL,
    extra_json TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 1,
    
    user_id TEXT GENERATED ALWAYS AS
        (CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.user_id') END) VIRTUAL,
    session_id TEXT GENERATED ALWAYS AS
        (CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.session_id') END) VIRTUAL,
    task_id TEXT GENERATED ALWAYS AS
        (CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.task_id') END) VIRTUAL,
    agent_id TEXT GENERATED ALWAYS AS
        (CASE WHEN json_valid(metadata) THEN json_extract(metadata, '$.agent_id') END) VIRTUAL,
    archived_by TEXT GENERATED ALWAYS AS
        (CASE WHEN extra_json <> '{}' AND json_valid(extra_json)
              THEN json_extract(extra_json, '$.archived_by') END) VIRTUAL,
    state INTEGER GENERATED ALWAYS AS
        (CASE WHEN deleted THEN 2
              WHEN extra_json <> '{}' AND json_valid(extra_json)
                   AND json_extract(extra_json, '$.archived_by') IS NOT NULL THEN 1
              ELSE 0 END) VIRTUAL

);
CREATE TABLE memoranda_meta (
    key TEXT PRIMARY KEY NOT NULL,
    value
) WITHOUT ROWID
;
CREATE TABLE memoranda_stale (item INTEGER PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE memoranda_terms (item INTEGER PRIMARY KEY, id TEXT NOT NULL, owner TEXT NOT NULL, terms TEXT NOT NULL);
CREATE VIRTUAL TABLE memoranda_trigrams USING fts5(text, content='', columnsize=0, detail=none, tokenize="trigram case_sensitive 1");
CREATE VIRTUAL TABLE memoranda_words USING fts5(text, content='', columnsize=0, detail=none, tokenize="ascii tokenchars ':'");
CREATE VIRTUAL TABLE memoranda_vocabulary USING fts5vocab(memoranda_words, row);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version) VALUES (1, 'id-0', 'Content 0', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{}', '2024-05-01T10:00:00.000000+00:00', '2024-05-01T10:00:00.000000+00:00', 0, 1);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version) VALUES (2, 'id-1', 'Content 1, again', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{}', '2024-05-01T10:01:00.000000+00:00', '2024-05-01T10:01:00.000000+00:00', 0, 2);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version) VALUES (3, 'id-2', 'Content 2', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{}', '2024-05-01T10:02:00.000000+00:00', '2024-05-01T10:02:00.000000+00:00', 0, 1);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version) VALUES (4, 'id-3', 'Content 3', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{}', '2024-05-01T10:03:00.000000+00:00', '2024-05-01T10:03:00.000000+00:00', 0, 1);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version) VALUES (5, 'call', '', 'ai', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}', '2024-05-01T10:04:00.000000+00:00', '2024-05-01T10:04:00.000000+00:00', 0, 1);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version) VALUES (6, 'archived', 'Archived', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{"archived_by":"id-0"}', '2024-05-01T10:05:00.000000+00:00', '2024-05-01T10:05:00.000000+00:00', 0, 1);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version) VALUES (7, 'deleted', 'Deleted', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{}', '2024-05-01T10:06:00.000000+00:00', '2024-05-01T10:06:00.000000+00:00', 1, 1);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version) VALUES (8, 'unindexed', 'Straße', 'human', 'accepted', '{"user_id":"bob","session_id":null,"task_id":null,"agent_id":null,"extra":{}}', '{}', '2024-05-01T10:07:00.000000+00:00', '2024-05-01T10:07:00.000000+00:00', 0, 1);
INSERT INTO memoranda_meta (key, value) VALUES ('indexed', 7);
INSERT INTO memoranda_meta (key, value) VALUES ('schema_version', 1);
INSERT INTO memoranda_meta (key, value) VALUES ('terms', 'ab5e8afc7e0fb67c');
INSERT INTO memoranda_meta (key, value) VALUES ('text_index', 2);
INSERT INTO memoranda_stale (item, content) VALUES (2, 'Content 1');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (1, 'id-0', ':a8b0e7c330bf', 'content 0');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (2, 'id-1', ':a8b0e7c330bf', 'content 1');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (3, 'id-2', ':a8b0e7c330bf', 'content 2');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (4, 'id-3', ':a8b0e7c330bf', 'content 3');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (5, 'call', ':a8b0e7c330bf', '');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (6, 'archived', ':a8b0e7c330bf', 'archiv');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (7, 'deleted', ':a8b0e7c330bf', 'delet');
DELETE FROM memoranda_trigrams_data;
INSERT INTO memoranda_trigrams_data (id, block) VALUES (1, X'0727');
INSERT INTO memoranda_trigrams_data (id, block) VALUES (10, X'000000020101010001010101');
INSERT INTO memoranda_trigrams_data (id, block) VALUES (137438953473, X'0000008604306172630601036368690602026F6E01010101010364656C070103656C650702026E7401010101020274650701036869760601036976650601036C65740701036E7420010101010301650101010101036F6E7401010101010372636806010374203001030131020301320303013304020265640703016E01010101010376656406040606080606080506060609070906060404040507');
DELETE FROM memoranda_trigrams_idx;
INSERT INTO memoranda_trigrams_idx (segid, term, pgno) VALUES (1, X'', 2);
DELETE FROM memoranda_trigrams_config;
INSERT INTO memoranda_trigrams_config (k, v) VALUES ('automerge', 16);
INSERT INTO memoranda_trigrams_config (k, v) VALUES ('hashsize', 4194304);
INSERT INTO memoranda_trigrams_config (k, v) VALUES ('version', 4);
DELETE FROM memoranda_words_data;
INSERT INTO memoranda_words_data (id, block) VALUES (1, X'0711');
INSERT INTO memoranda_words_data (id, block) VALUES (10, X'000000020101010001010101');
INSERT INTO memoranda_words_data (id, block) VALUES (137438953473, X'0000004802303001010131020101320301013304010D3A613862306537633333306266010101010101010106617263686976060107636F6E74656E7401010101010564656C657407040404040416090D');
DELETE FROM memoranda_words_idx;
INSERT INTO memoranda_words_idx (segid, term, pgno) VALUES (1, X'', 2);
DELETE FROM memoranda_words_config;
INSERT INTO memoranda_words_config (k, v) VALUES ('automerge', 16);
INSERT INTO memoranda_words_config (k, v) VALUES ('hashsize', 4194304);
INSERT INTO memoranda_words_config (k, v) VALUES ('version', 4);
CREATE INDEX memory_items_by_time ON memory_items (state, created_at);
CREATE INDEX memory_items_by_user ON memory_items (user_id, state, created_at);
CREATE INDEX memory_items_by_session ON memory_items (session_id, state, created_at);
CREATE INDEX memory_items_by_user_session ON memory_items (user_id, session_id, state, created_at);
CREATE INDEX memory_items_by_task ON memory_items (task_id, state, created_at) WHERE task_id IS NOT NULL;
CREATE INDEX memory_items_by_agent ON memory_items (agent_id, state, created_at) WHERE agent_id IS NOT NULL;
CREATE TRIGGER memoranda_changed AFTER UPDATE ON memory_items WHEN (old.content IS NOT new.content OR old.metadata IS NOT new.metadata) BEGIN INSERT INTO memoranda_stale (item, content) SELECT old.rowid, old.content WHERE EXISTS (SELECT 1 FROM memoranda_terms WHERE item = old.rowid) AND NOT EXISTS (SELECT 1 FROM memoranda_stale WHERE item = old.rowid); END;
CREATE TRIGGER memoranda_removed AFTER DELETE ON memory_items BEGIN INSERT INTO memoranda_stale (item, content) SELECT old.rowid, old.content WHERE EXISTS (SELECT 1 FROM memoranda_terms WHERE item = old.rowid) AND NOT EXISTS (SELECT 1 FROM memoranda_stale WHERE item = old.rowid); UPDATE memoranda_meta SET value = (SELECT ifnull(max(rowid), 0) FROM memory_items) WHERE key = 'indexed' AND value > (SELECT ifnull(max(rowid), 0) FROM memory_items); END;
COMMIT;
