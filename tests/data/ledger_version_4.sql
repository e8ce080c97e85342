PRAGMA user_version=4;
BEGIN TRANSACTION;
CREATE TABLE buckets (
            name TEXT PRIMARY KEY, rule TEXT NOT NULL, boot TEXT NOT NULL, now REAL NOT NULL,
            wall REAL NOT NULL, state TEXT NOT NULL);
INSERT INTO "buckets" VALUES('fake','1/s burst 2','boot of the host',87410.0,1800086410.0,'{"rate":1.0,"burst":2.0,"learned":false,"full_at":1.0,"pause_count":0,"slow_interval":0.0,"flow":0.0}');
CREATE TABLE durations (
            serial INTEGER PRIMARY KEY, profile TEXT NOT NULL, label TEXT NOT NULL,
            least_s REAL NOT NULL, most_s REAL NOT NULL, began_at REAL NOT NULL DEFAULT 0, job INTEGER NOT NULL DEFAULT 0);
INSERT INTO "durations" VALUES(1,'fake','',0.0,10.0,1800000000.0,1);
INSERT INTO "durations" VALUES(2,'fake','',0.0,10.0,1800000000.0,2);
INSERT INTO "durations" VALUES(3,'fake','',0.0,10.0,1800000000.0,3);
CREATE TABLE jobs (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE, url TEXT, profile TEXT, label TEXT, size REAL, metadata TEXT,
            state TEXT NOT NULL, added_at REAL NOT NULL,
            free_at REAL, due_at REAL, owner TEXT, progress TEXT,
            ended_at REAL,
            tell_at REAL, tell_from REAL, tells INTEGER NOT NULL DEFAULT 0, tell_error TEXT,
            told_at REAL, notice_delay_s REAL, timeout_s REAL);
INSERT INTO "jobs" VALUES(1,'done',NULL,'fake',NULL,NULL,NULL,'done',1800000000.0,NULL,NULL,NULL,NULL,1800000010.0,NULL,1800000010.0,1,NULL,1800000010.0,NULL,NULL);
INSERT INTO "jobs" VALUES(2,'given-up',NULL,'fake',NULL,NULL,NULL,'done',1800000000.0,NULL,NULL,NULL,NULL,1800000010.0,NULL,1800000010.0,2,'exit status 7',NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(3,'untold',NULL,'fake',NULL,NULL,NULL,'done',1800000000.0,NULL,NULL,NULL,NULL,1800000010.0,1800086470.0,1800000010.0,2,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(4,'begun',NULL,'fake','small',7.0,'{"to":"me"}','waiting',1800000000.0,1800000020.0,1800000020.0,NULL,'{"started_at":1800000000.0,"deadline":1800001200.0,"next_at":1800000020.0,"wait_from":1800000010.0,"seen_at":1800000010.0,"polls":1,"looks":1,"pace_wait":10.0,"status":"running"}',NULL,NULL,NULL,0,NULL,NULL,NULL,1200.0);
INSERT INTO "jobs" VALUES(5,'leased',NULL,'fake',NULL,NULL,NULL,'waiting',1800086410.0,1800086470.0,1800086410.0,'bf13440bbf1d3b09',NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL);
INSERT INTO "jobs" VALUES(6,'never','https://api.internal/never',NULL,NULL,NULL,NULL,'waiting',1800086410.0,1800086410.0,1800086410.0,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,9e999);
CREATE TABLE minutes (
            minute INTEGER NOT NULL, profile TEXT NOT NULL, polls INTEGER NOT NULL,
            faults INTEGER NOT NULL, rate_limited INTEGER NOT NULL,
            PRIMARY KEY (minute, profile));
INSERT INTO "minutes" VALUES(30001440,'fake',7,2,1);
CREATE TABLE outcomes (key INTEGER PRIMARY KEY, outcome TEXT NOT NULL);
INSERT INTO "outcomes" VALUES(1,'{"id":"done","url":"https://api.internal/done","profile":"fake","label":null,"state":"done","status":"done","result":{"pages":3},"error":null,"progress":null,"polls":1,"faults":0,"waited_s":10.0,"slept_s":{"pace":0.0,"limit":0.0,"retry_after":0.0,"fault":0.0},"notice_delay_s":null,"started_at":"2027-01-15T08:00:00.000Z","ended_at":"2027-01-15T08:00:10.000Z"}');
INSERT INTO "outcomes" VALUES(2,'{"id":"given-up","url":"https://api.internal/given-up","profile":"fake","label":null,"state":"done","status":"done","result":{"pages":3},"error":null,"progress":null,"polls":1,"faults":0,"waited_s":10.0,"slept_s":{"pace":0.0,"limit":0.0,"retry_after":0.0,"fault":0.0},"notice_delay_s":null,"started_at":"2027-01-15T08:00:00.000Z","ended_at":"2027-01-15T08:00:10.000Z"}');
INSERT INTO "outcomes" VALUES(3,'{"id":"untold","url":"https://api.internal/untold","profile":"fake","label":null,"state":"done","status":"done","result":{"pages":3},"error":null,"progress":null,"polls":1,"faults":0,"waited_s":10.0,"slept_s":{"pace":0.0,"limit":0.0,"retry_after":0.0,"fault":0.0},"notice_delay_s":null,"started_at":"2027-01-15T08:00:00.000Z","ended_at":"2027-01-15T08:00:10.000Z"}');
CREATE TABLE time (
            boot TEXT NOT NULL, now REAL NOT NULL, wall REAL NOT NULL, at REAL NOT NULL);
INSERT INTO "time" VALUES('boot of the host',87410.0,1800086410.0,1800086410.0);
CREATE INDEX jobs_free ON jobs (free_at);
CREATE INDEX jobs_tell ON jobs (tell_at);
CREATE INDEX durations_of ON durations (profile, label, began_at, job);
COMMIT;
