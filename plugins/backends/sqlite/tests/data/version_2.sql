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
    created_us INTEGER,
    user_id TEXT,
    session_id TEXT,
    task_id TEXT,
    agent_id TEXT,
    namespace TEXT,
    archived_by TEXT,
    expires_at TEXT,
    state INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE memoranda_journal (place INTEGER PRIMARY KEY, item INTEGER);
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
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version, created_us, user_id, session_id, task_id, agent_id, namespace, archived_by, expires_at, state) VALUES (1, 'id-0', 'Content 0', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{}', '2024-05-01T10:00:00.000000+00:00', '2024-05-01T10:00:00.000000+00:00', 0, 1, 1714557600000000, 'ada', 's', NULL, NULL, NULL, NULL, NULL, 0);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version, created_us, user_id, session_id, task_id, agent_id, namespace, archived_by, expires_at, state) VALUES (2, 'id-1', 'Content 1, again', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{}', '2024-05-01T10:01:00.000000+00:00', '2024-05-01T10:01:00.000000+00:00', 0, 2, 1714557660000000, 'ada', 's', NULL, NULL, NULL, NULL, NULL, 0);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version, created_us, user_id, session_id, task_id, agent_id, namespace, archived_by, expires_at, state) VALUES (3, 'id-2', 'Content 2', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{}', '2024-05-01T10:02:00.000000+00:00', '2024-05-01T10:02:00.000000+00:00', 0, 1, 1714557720000000, 'ada', 's', NULL, NULL, NULL, NULL, NULL, 0);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version, created_us, user_id, session_id, task_id, agent_id, namespace, archived_by, expires_at, state) VALUES (4, 'id-3', 'Content 3', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{}', '2024-05-01T10:03:00.000000+00:00', '2024-05-01T10:03:00.000000+00:00', 0, 1, 1714557780000000, 'ada', 's', NULL, NULL, NULL, NULL, NULL, 0);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version, created_us, user_id, session_id, task_id, agent_id, namespace, archived_by, expires_at, state) VALUES (5, 'call', '', 'ai', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}', '2024-05-01T10:04:00.000000+00:00', '2024-05-01T10:04:00.000000+00:00', 0, 1, 1714557840000000, 'ada', 's', NULL, NULL, NULL, NULL, NULL, 0);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version, created_us, user_id, session_id, task_id, agent_id, namespace, archived_by, expires_at, state) VALUES (6, 'archived', 'Archived', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{"archived_by":"id-0"}', '2024-05-01T10:05:00.000000+00:00', '2024-05-01T10:05:00.000000+00:00', 0, 1, 1714557900000000, 'ada', 's', NULL, NULL, NULL, 'id-0', NULL, 1);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version, created_us, user_id, session_id, task_id, agent_id, namespace, archived_by, expires_at, state) VALUES (7, 'deleted', 'Deleted', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{}', '2024-05-01T10:06:00.000000+00:00', '2024-05-01T10:06:00.000000+00:00', 1, 1, 1714557960000000, 'ada', 's', NULL, NULL, NULL, NULL, NULL, 2);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version, created_us, user_id, session_id, task_id, agent_id, namespace, archived_by, expires_at, state) VALUES (8, 'placed', 'Placed', 'human', 'accepted', '{"user_id":"ada","session_id":null,"task_id":null,"agent_id":null,"namespace":["users","a/b","~"],"extra":{}}', '{}', '2024-05-01T10:08:00.000000+00:00', '2024-05-01T10:08:00.000000+00:00', 0, 1, 1714558080000000, 'ada', NULL, NULL, NULL, 'users/a~1b/~0/', NULL, NULL, 0);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version, created_us, user_id, session_id, task_id, agent_id, namespace, archived_by, expires_at, state) VALUES (9, 'mortal', 'Mortal', 'human', 'accepted', '{"user_id":"ada","session_id":"s","task_id":null,"agent_id":null,"extra":{"k":1}}', '{"expires_at":"2999-01-01T00:00:00.000000+00:00"}', '2024-05-01T10:09:00.000000+00:00', '2024-05-01T10:09:00.000000+00:00', 0, 1, 1714558140000000, 'ada', 's', NULL, NULL, NULL, NULL, '2999-01-01T00:00:00.000000+00:00', 0);
INSERT INTO memory_items (rowid, id, content, memory_type, status, metadata, extra_json, created_at, updated_at, deleted, version, created_us, user_id, session_id, task_id, agent_id, namespace, archived_by, expires_at, state) VALUES (10, 'unindexed', 'Straße', 'human', 'accepted', '{"user_id":"bob"}', '{}', '2024-05-01T10:07:00.000000+00:00', '2024-05-01T10:07:00.000000+00:00', 0, 1, 1714558020000000, 'bob', NULL, NULL, NULL, NULL, NULL, NULL, 0);
INSERT INTO memoranda_journal (place, item) VALUES (1, 7);
INSERT INTO memoranda_journal (place, item) VALUES (2, 2);
INSERT INTO memoranda_meta (key, value) VALUES ('indexed', 9);
INSERT INTO memoranda_meta (key, value) VALUES ('schema_version', 2);
INSERT INTO memoranda_meta (key, value) VALUES ('terms', '3-f9f83f3ad3e48373');
INSERT INTO memoranda_meta (key, value) VALUES ('text_index', 1);
INSERT INTO memoranda_stale (item, content) VALUES (2, 'Content 1');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (1, 'id-0', ':a8b0e7c330bf', 'content 0
');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (2, 'id-1', ':a8b0e7c330bf', 'content 1
');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (3, 'id-2', ':a8b0e7c330bf', 'content 2
');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (4, 'id-3', ':a8b0e7c330bf', 'content 3
');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (5, 'call', ':a8b0e7c330bf', '
');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (6, 'archived', ':a8b0e7c330bf', 'archived
archiv');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (7, 'deleted', ':a8b0e7c330bf', 'deleted
delet');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (8, 'placed', ':a8b0e7c330bf', 'placed
place');
INSERT INTO memoranda_terms (item, id, owner, terms) VALUES (9, 'mortal', ':a8b0e7c330bf', 'mortal
');
DELETE FROM memoranda_trigrams_data;
INSERT INTO memoranda_trigrams_data (id, block) VALUES (1, X'092F');
INSERT INTO memoranda_trigrams_data (id, block) VALUES (10, X'000000020101010001010101');
INSERT INTO memoranda_trigrams_data (id, block) VALUES (137438953473, X'000000B00430616365080202726306010363656408020268690602026F6E01010101010364656C070103656C650702026E7401010101020274650701036869760601036976650601036C616308020265740701036D6F720901036E7420010101010301650101010101036F6E740101010102027274090103706C610801037263680602027461090103742030010301310203013203030133040202616C09020265640703016E010101010103766564060406050605080606080506060605060907090506060506040404050507');
DELETE FROM memoranda_trigrams_idx;
INSERT INTO memoranda_trigrams_idx (segid, term, pgno) VALUES (1, X'', 2);
DELETE FROM memoranda_trigrams_config;
INSERT INTO memoranda_trigrams_config (k, v) VALUES ('automerge', 16);
INSERT INTO memoranda_trigrams_config (k, v) VALUES ('hashsize', 4194304);
INSERT INTO memoranda_trigrams_config (k, v) VALUES ('version', 4);
DELETE FROM memoranda_words_data;
INSERT INTO memoranda_words_data (id, block) VALUES (1, X'0918');
INSERT INTO memoranda_words_data (id, block) VALUES (10, X'000000020101010001010101');
INSERT INTO memoranda_words_data (id, block) VALUES (137438953473, X'0000006902303001010131020101320301013304010D3A61386230653763333330626601010101010101010101066172636869760607026564060107636F6E74656E7401010101010564656C657407060265640701066D6F7274616C090105706C616365080601640804040404041809050D08050908');
DELETE FROM memoranda_words_idx;
INSERT INTO memoranda_words_idx (segid, term, pgno) VALUES (1, X'', 2);
DELETE FROM memoranda_words_config;
INSERT INTO memoranda_words_config (k, v) VALUES ('automerge', 16);
INSERT INTO memoranda_words_config (k, v) VALUES ('hashsize', 4194304);
INSERT INTO memoranda_words_config (k, v) VALUES ('version', 4);
CREATE INDEX memory_items_by_time ON memory_items (state, created_us);
CREATE INDEX memory_items_by_user ON memory_items (user_id, state, created_us);
CREATE INDEX memory_items_by_session ON memory_items (session_id, state, created_us);
CREATE INDEX memory_items_by_added ON memory_items (session_id, state) WHERE session_id IS NOT NULL;
CREATE INDEX memory_items_by_task ON memory_items (task_id, state, created_us) WHERE task_id IS NOT NULL;
CREATE INDEX memory_items_by_agent ON memory_items (agent_id, state, created_us) WHERE agent_id IS NOT NULL;
CREATE INDEX memory_items_by_namespace ON memory_items (namespace, state, created_us) WHERE namespace IS NOT NULL;
CREATE INDEX memory_items_by_user_namespace ON memory_items (user_id, namespace, state, created_us) WHERE namespace IS NOT NULL;
CREATE INDEX memory_items_by_expiry ON memory_items (expires_at) WHERE expires_at IS NOT NULL;
CREATE TRIGGER memory_items_inserted AFTER INSERT ON memory_items WHEN new.created_us IS NULL BEGIN UPDATE memory_items SET created_us = ifnull(CASE WHEN new.created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN CAST(strftime('%s', CASE WHEN substr(new.created_at, 20, 1) = '.' THEN substr(new.created_at, 1, 19) || ltrim(substr(new.created_at, 21), '0123456789') ELSE new.created_at END) AS INTEGER) * 1000000 + CASE WHEN substr(new.created_at, 20, 1) = '.' THEN CAST(round(CAST('0' || substr(new.created_at, 20, 7) AS REAL) * 1000000) AS INTEGER) ELSE 0 END END, -62135596800000001), user_id = CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.user_id') END, session_id = CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.session_id') END, task_id = CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.task_id') END, agent_id = CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.agent_id') END, namespace = CASE WHEN json_valid(new.metadata) THEN (SELECT group_concat(replace(replace(value, '~', '~0'), '/', '~1') || '/', '') FROM json_each(new.metadata, '$.namespace')) END, archived_by = CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.archived_by') END, expires_at = CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.expires_at') END, state = CASE WHEN new.deleted THEN 2 WHEN CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.archived_by') END IS NOT NULL THEN 1 ELSE 0 END WHERE rowid = new.rowid AND (created_us IS NOT ifnull(CASE WHEN new.created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN CAST(strftime('%s', CASE WHEN substr(new.created_at, 20, 1) = '.' THEN substr(new.created_at, 1, 19) || ltrim(substr(new.created_at, 21), '0123456789') ELSE new.created_at END) AS INTEGER) * 1000000 + CASE WHEN substr(new.created_at, 20, 1) = '.' THEN CAST(round(CAST('0' || substr(new.created_at, 20, 7) AS REAL) * 1000000) AS INTEGER) ELSE 0 END END, -62135596800000001) OR user_id IS NOT CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.user_id') END OR session_id IS NOT CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.session_id') END OR task_id IS NOT CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.task_id') END OR agent_id IS NOT CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.agent_id') END OR namespace IS NOT CASE WHEN json_valid(new.metadata) THEN (SELECT group_concat(replace(replace(value, '~', '~0'), '/', '~1') || '/', '') FROM json_each(new.metadata, '$.namespace')) END OR archived_by IS NOT CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.archived_by') END OR expires_at IS NOT CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.expires_at') END OR state IS NOT CASE WHEN new.deleted THEN 2 WHEN CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.archived_by') END IS NOT NULL THEN 1 ELSE 0 END); END;
CREATE TRIGGER memory_items_updated AFTER UPDATE OF metadata, extra_json, deleted, created_at ON memory_items WHEN old.metadata IS NOT new.metadata OR old.extra_json IS NOT new.extra_json OR (new.deleted <> 0) IS NOT (new.state = 2) OR (old.created_at IS NOT new.created_at AND old.created_us IS new.created_us) BEGIN UPDATE memory_items SET created_us = ifnull(CASE WHEN new.created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN CAST(strftime('%s', CASE WHEN substr(new.created_at, 20, 1) = '.' THEN substr(new.created_at, 1, 19) || ltrim(substr(new.created_at, 21), '0123456789') ELSE new.created_at END) AS INTEGER) * 1000000 + CASE WHEN substr(new.created_at, 20, 1) = '.' THEN CAST(round(CAST('0' || substr(new.created_at, 20, 7) AS REAL) * 1000000) AS INTEGER) ELSE 0 END END, -62135596800000001), user_id = CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.user_id') END, session_id = CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.session_id') END, task_id = CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.task_id') END, agent_id = CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.agent_id') END, namespace = CASE WHEN json_valid(new.metadata) THEN (SELECT group_concat(replace(replace(value, '~', '~0'), '/', '~1') || '/', '') FROM json_each(new.metadata, '$.namespace')) END, archived_by = CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.archived_by') END, expires_at = CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.expires_at') END, state = CASE WHEN new.deleted THEN 2 WHEN CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.archived_by') END IS NOT NULL THEN 1 ELSE 0 END WHERE rowid = new.rowid AND (created_us IS NOT ifnull(CASE WHEN new.created_at GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' THEN CAST(strftime('%s', CASE WHEN substr(new.created_at, 20, 1) = '.' THEN substr(new.created_at, 1, 19) || ltrim(substr(new.created_at, 21), '0123456789') ELSE new.created_at END) AS INTEGER) * 1000000 + CASE WHEN substr(new.created_at, 20, 1) = '.' THEN CAST(round(CAST('0' || substr(new.created_at, 20, 7) AS REAL) * 1000000) AS INTEGER) ELSE 0 END END, -62135596800000001) OR user_id IS NOT CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.user_id') END OR session_id IS NOT CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.session_id') END OR task_id IS NOT CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.task_id') END OR agent_id IS NOT CASE WHEN json_valid(new.metadata) THEN json_extract(new.metadata, '$.agent_id') END OR namespace IS NOT CASE WHEN json_valid(new.metadata) THEN (SELECT group_concat(replace(replace(value, '~', '~0'), '/', '~1') || '/', '') FROM json_each(new.metadata, '$.namespace')) END OR archived_by IS NOT CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.archived_by') END OR expires_at IS NOT CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.expires_at') END OR state IS NOT CASE WHEN new.deleted THEN 2 WHEN CASE WHEN new.extra_json <> '{}' AND json_valid(new.extra_json) THEN json_extract(new.extra_json, '$.archived_by') END IS NOT NULL THEN 1 ELSE 0 END); END;
CREATE TRIGGER memoranda_journal_shortened AFTER INSERT ON memoranda_journal WHEN new.place % 1024 = 0 BEGIN DELETE FROM memoranda_journal WHERE place <= new.place - 4096; END;
CREATE TRIGGER memory_items_noted_update AFTER UPDATE ON memory_items BEGIN INSERT INTO memoranda_journal (item) VALUES (CASE WHEN new.rowid = old.rowid THEN old.rowid END); END;
CREATE TRIGGER memory_items_noted_delete AFTER DELETE ON memory_items BEGIN INSERT INTO memoranda_journal (item) VALUES (old.rowid); END;
CREATE TRIGGER memory_items_noted_insert AFTER INSERT ON memory_items WHEN new.created_us IS NULL BEGIN INSERT INTO memoranda_journal (item) VALUES (NULL); END;
CREATE INDEX memory_items_by_staying ON memory_items (session_id, state) WHERE memory_type IN ('system', 'summary');
CREATE TRIGGER memoranda_changed AFTER UPDATE ON memory_items WHEN (old.content IS NOT new.content OR old.metadata IS NOT new.metadata) BEGIN INSERT INTO memoranda_stale (item, content) SELECT old.rowid, old.content WHERE EXISTS (SELECT 1 FROM memoranda_terms WHERE item = old.rowid) AND NOT EXISTS (SELECT 1 FROM memoranda_stale WHERE item = old.rowid); END;
CREATE TRIGGER memoranda_removed AFTER DELETE ON memory_items BEGIN INSERT INTO memoranda_stale (item, content) SELECT old.rowid, old.content WHERE EXISTS (SELECT 1 FROM memoranda_terms WHERE item = old.rowid) AND NOT EXISTS (SELECT 1 FROM memoranda_stale WHERE item = old.rowid); UPDATE memoranda_meta SET value = (SELECT ifnull(max(rowid), 0) FROM memory_items) WHERE key = 'indexed' AND value > (SELECT ifnull(max(rowid), 0) FROM memory_items); END;
COMMIT;
