BEGIN TRANSACTION;
CREATE TABLE "memory_items" (
    id TEXT PRIMARY KEY,
    content TEXT NOT NULL,
    memory_type TEXT NOT NULL,
    status TEXT NOT NULL,
    metadata TEXT NOT NULL,
    extra_json TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    deleted INTEGER NOT NULL,
    version INTEGER NOT NULL
);
INSERT INTO "memory_items" VALUES('id-0','Content 0','human','accepted','{"user_id": "ada", "session_id": "s", "task_id": null, "agent_id": null, "extra": {"k": 1}}','{}','2024-05-01T10:00:00','2024-05-01T10:00:00',0,1);
INSERT INTO "memory_items" VALUES('id-1','Content 1','human','accepted','{"user_id": "ada", "session_id": "s", "task_id": null, "agent_id": null, "extra": {"k": 1}}','{}','2024-05-01T12:30:00+02:00','2024-05-01T10:00:00',0,2);
INSERT INTO "memory_items" VALUES('id-2','Content 2','ai','accepted','{"user_id": "ada", "session_id": "s", "task_id": null, "agent_id": null, "extra": {"k": 1}}','{"tool_calls": [{"id": "c"}]}','2024-05-01 11:00:00Z','2024-05-01T10:00:00',0,3);
INSERT INTO "memory_items" VALUES('id-3','Content 3','human','accepted','{"user_id": "ada", "session_id": "s", "task_id": null, "agent_id": null, "extra": {"k": 1}}','{}','2024-05-01T10:00:00','2024-05-01T10:00:00',0,4);
INSERT INTO "memory_items" VALUES('id-4','Content 4','human','accepted','{"user_id": "ada", "session_id": "s", "task_id": null, "agent_id": null, "extra": {"k": 1}}','{}','2024-05-01T12:30:00+02:00','2024-05-01T10:00:00',0,5);
INSERT INTO "memory_items" VALUES('id-5','Content 5','human','accepted','{"user_id": "ada", "session_id": "s", "task_id": null, "agent_id": null, "extra": {"k": 1}}','{}','2024-05-01 11:00:00Z','2024-05-01T10:00:00',1,6);
COMMIT;
