PRAGMA user_version=3;
BEGIN TRANSACTION;
CREATE TABLE buckets (
            name TEXT PRIMARY KEY, rule TEXT NOT NULL, boot TEXT NOT NULL, now REAL NOT NULL, wall REAL NOT NULL,
            state TEXT NOT NULL);
CREATE TABLE durations (
            serial INTEGER PRIMARY KEY, profile TEXT NOT NULL, label TEXT NOT NULL,
            least_s REAL NOT NULL, most_s REAL NOT NULL, began_at REAL NOT NULL DEFAULT 0, job INTEGER NOT NULL DEFAULT 0);
INSERT INTO "durations" VALUES(1,'fake','',0.0,10.0,1800000000.0,1);
CREATE TABLE jobs (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE, url TEXT, profile TEXT, label TEXT, size REAL, metadata TEXT,
            state TEXT NOT NULL, added_at REAL NOT NULL,
            free_at REAL, due_at REAL, owner TEXT, progress TEXT,
            ended_at REAL,
            tell_at REAL, tell_from REAL, tells INTEGER NOT NULL DEFAULT 0, tell_error TEXT, told_at REAL, notice_delay_s REAL);
INSERT INTO "jobs" VALUES(1,'done',NULL,'fake',NULL,NULL,NULL,'done',1800000000.0,NULL,NULL,NULL,NULL,1800000010.0,NULL,1800000010.0,1,NULL,1800000010.0,NULL);
INSERT INTO "jobs" VALUES(2,'late',NULL,'fake',NULL,NULL,NULL,'timed_out',1800000000.0,NULL,NULL,NULL,NULL,1800000410.0,1800000410.0,NULL,0,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,'begun',NULL,'fake','small',7.0,'{"to":"me"}','waiting',1800000000.0,1800000020.0,1800000020.0,NULL,'{"started_at":1800000000.0,"deadline":1800000300.0,"next_at":1800000020.0,"wait_from":1800000010.0,"polls":1,"looks":1,"pace_wait":10.0,"status":"running","seen_at":1800000010.0}',NULL,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(4,'new',NULL,'fake',NULL,NULL,NULL,'waiting',1800000410.0,1800000410.0,1800000410.0,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(5,'http://127.0.0.1:9/jobs/5','http://127.0.0.1:9/jobs/5',NULL,NULL,NULL,NULL,'waiting',1800000410.0,1800000410.0,1800000410.0,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL);
CREATE TABLE minutes (
            minute INTEGER NOT NULL, profile TEXT NOT NULL, polls INTEGER NOT NULL, faults INTEGER NOT NULL,
            rate_limited INTEGER NOT NULL, PRIMARY KEY (minute, profile));
CREATE TABLE outcomes (key INTEGER PRIMARY KEY, outcome TEXT NOT NULL);
INSERT INTO "outcomes" VALUES(1,'{"id":"done","url":"https://api.internal/done","profile":"fake","label":null,"state":"done","status":"done","result":{"pages":3},"error":null,"progress":null,"polls":1,"faults":0,"waited_s":10.0,"slept_s":{"pace":0.0,"limit":0.0,"retry_after":0.0,"fault":0.0},"notice_delay_s":null,"started_at":"2027-01-15T08:00:00.000Z","ended_at":"2027-01-15T08:00:10.000Z"}');
INSERT INTO "outcomes" VALUES(2,'{"id":"late","url":"https://api.internal/late","profile":"fake","label":null,"state":"timed_out","status":"running","result":null,"error":{"code":null,"message":"not done within 5m; last status \"running\""},"progress":null,"polls":1,"faults":0,"waited_s":410.0,"slept_s":{"pace":0.0,"limit":0.0,"retry_after":0.0,"fault":0.0},"notice_delay_s":null,"started_at":"2027-01-15T08:00:00.000Z","ended_at":"2027-01-15T08:06:50.000Z"}');
CREATE TABLE time (boot TEXT NOT NULL, now REAL NOT NULL, wall REAL NOT NULL, at REAL NOT NULL);
INSERT INTO "time" VALUES('boot of the host',1410.0,1800000410.0,1800000410.0);
CREATE INDEX jobs_free ON jobs (free_at);
CREATE INDEX jobs_tell ON jobs (tell_at);
CREATE INDEX durations_of ON durations (profile, label, began_at, job);
COMMIT;
