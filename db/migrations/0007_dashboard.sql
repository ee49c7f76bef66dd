-- The slugs of the public pages of accounts. An account's own slug never changes, even if the account is renamed. Aliases are
-- slugs of an earlier system, which redirect to it.
CREATE TABLE dashboard (
  slug text COLLATE "C" PRIMARY KEY CONSTRAINT dashboard_slug CHECK (length(slug) BETWEEN 1 AND 200),
  account_id uuid NOT NULL REFERENCES account,
  is_alias boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL
);

CREATE UNIQUE INDEX dashboard_own ON dashboard (account_id) WHERE NOT is_alias;

-- What the public pages of an account say about it. Without a row they have its name and the default color.
CREATE TABLE profile (
  account_id uuid PRIMARY KEY REFERENCES account,
  -- Null shows the account's name.
  display_name text CONSTRAINT profile_display_name CHECK (length(display_name) BETWEEN 1 AND 80),
  color text CONSTRAINT profile_color CHECK (color ~ '^#[0-9a-f]{6}$'),
  home_url text CONSTRAINT profile_home_url CHECK (home_url LIKE 'https://%' AND length(home_url) <= 500),
  -- Plain text; an empty line starts a paragraph.
  story text CONSTRAINT profile_story CHECK (length(story) BETWEEN 1 AND 1200),
  -- Sections of the page that are not shown. Carbon is a projection, so only an organization that wants it shows it.
  hidden_sections text[] NOT NULL DEFAULT '{}' CONSTRAINT profile_hidden_sections CHECK (
    hidden_sections <@ ARRAY['bottles', 'donations', 'months', 'sites', 'photos']
  ),
  shows_carbon boolean NOT NULL DEFAULT false,
  -- A picture, served as it is. Its hash is in its URL, which is immutable.
  logo bytea CONSTRAINT profile_logo CHECK (length(logo) BETWEEN 1 AND 524288),
  -- After the name of a cell, in which the URL of the logo leads there.
  logo_hash text COLLATE "C" CONSTRAINT profile_logo_hash CHECK (
    logo_hash ~ '^([a-z][a-z0-9]{0,7}_)?[0-9a-f]{64}$'
  ),
  logo_type text CONSTRAINT profile_logo_type CHECK (logo_type IN ('png', 'jpeg', 'webp')),
  logo_width integer,
  logo_height integer,
  CONSTRAINT profile_logo_complete CHECK (num_nulls(logo, logo_hash, logo_type, logo_width, logo_height) IN (0, 5))
);

CREATE INDEX profile_logo_hash ON profile (logo_hash) WHERE logo_hash IS NOT NULL;

-- A public page that certifies one record, or the records of a store's order. Its token cannot be guessed: whoever has the
-- URL may read the page. It has no id of an order, so forgetting a customer need not touch it.
CREATE TABLE certificate (
  token text COLLATE "C" PRIMARY KEY CONSTRAINT certificate_token CHECK (
    token ~ '^([a-z][a-z0-9]{0,7}_)?[0-9a-f]{32}$'
  ),
  account_id uuid NOT NULL REFERENCES account,
  -- The registration or donation, or the first of an order.
  record_id uuid NOT NULL,
  -- The further records of an order.
  further_record_ids uuid[] NOT NULL DEFAULT '{}',
  is_of_order boolean NOT NULL,
  created_at timestamptz NOT NULL,
  -- From then on the page does not exist. The next request for the URL creates another one.
  revoked_at timestamptz
);

CREATE INDEX certificate_record_id ON certificate (record_id);
CREATE UNIQUE INDEX certificate_current ON certificate (record_id, is_of_order) WHERE revoked_at IS NULL;
