-- The strings and numbers in metadata, such as a shop's order number. At most 64, so that no client makes an index of them
-- costly. The planner replaces the function by its expression, so an insert does not call it.
CREATE FUNCTION metadata_values(metadata jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN jsonb_path_query_array(
    jsonb_path_query_array(metadata, 'strict $.** ? (@.type() == "string" || @.type() == "number")'), '$[0 to 63]'
  );

-- Support finds a record by a value in its metadata.
CREATE INDEX registration_metadata ON registration USING gin (metadata_values(metadata) jsonb_path_ops)
  WHERE metadata <> '{}';
CREATE INDEX donation_metadata ON donation USING gin (metadata_values(metadata) jsonb_path_ops) WHERE metadata <> '{}';
