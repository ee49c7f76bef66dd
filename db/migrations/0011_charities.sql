CREATE EXTENSION IF NOT EXISTS pg_trgm;

-- The built-in catalogue: the rows of the IRS Business Master File, and what we know of well-known charities beside it.
CREATE TABLE charity (
  ein text PRIMARY KEY CONSTRAINT charity_ein CHECK (ein ~ '^\d{9}$'),
  -- As the IRS lists it, in capitals; the well-known name where no file was loaded yet.
  name text NOT NULL,
  -- Trade, chapter or local name.
  sort_name text NOT NULL DEFAULT '',
  -- What the public calls it; empty for most.
  known_as text NOT NULL DEFAULT '',
  website text NOT NULL DEFAULT '',
  city text NOT NULL DEFAULT '',
  state text NOT NULL DEFAULT '',
  ntee text NOT NULL DEFAULT '',
  -- 9 marks a subordinate of a group ruling, which often shares its name with hundreds of others.
  affiliation text NOT NULL DEFAULT '',
  subsection text NOT NULL,
  deductibility text NOT NULL,
  -- From 0 to 9; ranks the larger of two equal matches first.
  income_code smallint NOT NULL DEFAULT 0,
  -- The day of the extract that the row was last seen in; null for what no extract has told.
  extracted_on date,
  -- A 501(c)(3) to which contributions are deductible.
  eligible boolean NOT NULL GENERATED ALWAYS AS (subsection = '03' AND deductibility = '1') STORED,
  -- Words in small letters with a space around each; the search brings its words into the same form.
  search_text text NOT NULL GENERATED ALWAYS AS (
    ' ' || regexp_replace(
      lower(regexp_replace(
        replace(known_as || ' ' || name || ' ' || sort_name, '&', ' and '), '[''.]', '', 'g'
      )),
      '[^a-z0-9]+', ' ', 'g'
    ) || ' '
  ) STORED
) WITH (fillfactor = 90);

CREATE INDEX charity_search ON charity USING gin (search_text gin_trgm_ops) WHERE eligible;
-- The order of a search without conditions.
CREATE INDEX charity_listing ON charity ((known_as = ''), ein) WHERE eligible;

-- How far the import of a file came, so that it goes on there.
CREATE TABLE charity_import (
  sha256 text NOT NULL CONSTRAINT charity_import_sha256 CHECK (length(sha256) = 64),
  extracted_on date NOT NULL,
  -- Lines of the file that are done, the header included.
  lines_done bigint NOT NULL,
  finished_at timestamptz,
  PRIMARY KEY (sha256, extracted_on)
);

-- What remote providers told of single charities; good for a day.
CREATE TABLE charity_detail (
  provider text NOT NULL,
  -- `ein:` or `id:` and what was asked for.
  lookup text NOT NULL,
  charity jsonb NOT NULL,
  fetched_at timestamptz NOT NULL,
  PRIMARY KEY (provider, lookup)
);

-- The instants of a bucket's latest turns, oldest first. Lost in a crash of the database, which harms nobody.
CREATE UNLOGGED TABLE rate_limit (
  bucket text PRIMARY KEY,
  turns timestamptz[] NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);
