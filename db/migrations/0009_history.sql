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

-- Hashes of short values in metadata, such as a shop's order number. They are few, so that no client makes an index of them
-- costly.
CREATE FUNCTION metadata_digests(metadata jsonb) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN ARRAY(
    SELECT hashtextextended((value #>> '{}') COLLATE "C", 0)
    FROM jsonb_path_query(metadata, '$.** ? (@.type() == "string" || @.type() == "number")') AS value
    WHERE length(value #>> '{}') BETWEEN 3 AND 200
    LIMIT 16
  );

-- Support finds a record by a value in its metadata.
CREATE INDEX registration_metadata ON registration USING gin (metadata_digests(metadata)) WHERE metadata <> '{}';
CREATE INDEX donation_metadata ON donation USING gin (metadata_digests(metadata)) WHERE metadata <> '{}';
