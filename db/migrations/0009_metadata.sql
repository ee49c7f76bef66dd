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
