-- A run of `impact import` or `impact verify-import` that has not ended. A run that was killed leaves its row, which a later
-- run deletes. What a run has read may be too much for memory, and nothing can be in a session, because a pooler may be in
-- between. An open transaction would hold back the feed of events. A crash of the database empties these tables, and the
-- foreign keys end the runs that were reading.
CREATE UNLOGGED TABLE import_run (
  id uuid PRIMARY KEY,
  started_at timestamptz NOT NULL
);

-- How often a run has read a record that has neither an id nor an idempotency key.
CREATE UNLOGGED TABLE import_occurrence (
  run_id uuid NOT NULL REFERENCES import_run ON DELETE CASCADE,
  -- A hash of the record.
  content uuid NOT NULL,
  count integer NOT NULL,
  PRIMARY KEY (run_id, content)
);

-- The ids and idempotency keys that a dry run or a verification has read.
CREATE UNLOGGED TABLE import_identity (
  run_id uuid NOT NULL REFERENCES import_run ON DELETE CASCADE,
  -- A hash of the id or the key.
  identity uuid NOT NULL,
  -- A hash of the record without refunds.
  content uuid NOT NULL,
  refunded bigint NOT NULL,
  -- The line that had it first.
  holder bigint NOT NULL,
  PRIMARY KEY (run_id, identity)
);

-- The sums of the files that a verification has read. There may be as many attributions as records.
CREATE UNLOGGED TABLE import_file_total (
  run_id uuid NOT NULL REFERENCES import_run ON DELETE CASCADE,
  kind text COLLATE "C" NOT NULL,
  month text COLLATE "C" NOT NULL,
  attribution text NOT NULL,
  attribution_digest bytea GENERATED ALWAYS AS (text_digest(attribution)) STORED,
  records bigint NOT NULL,
  quantity numeric NOT NULL,
  refunded numeric NOT NULL,
  PRIMARY KEY (run_id, kind, month, attribution_digest)
);
