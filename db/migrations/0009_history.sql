-- What a run of `impact import history` has read: it may be too much for memory, and nothing can be in a session, because a
-- pooler may be in between. An open transaction would hold back the feed of events. A run deletes its rows when it ends, and
-- those of runs that were killed a week ago: the id of a run begins with its time.
CREATE TABLE import_line (
  run_id uuid NOT NULL,
  -- A hash of a record's id, of its idempotency key, or of a record that has neither.
  identity uuid NOT NULL,
  -- How many records without an id and a key are equal.
  count integer NOT NULL,
  -- A hash of the record without refunds, and its refunds.
  content uuid NOT NULL,
  refunded bigint NOT NULL,
  -- The line that had the identity first, counted over all files.
  line bigint NOT NULL,
  PRIMARY KEY (run_id, identity)
);
