-- The public page of an account. The slug never changes, even if the account is renamed.
CREATE TABLE dashboard (
  account_id uuid PRIMARY KEY REFERENCES account,
  slug text COLLATE "C" NOT NULL CONSTRAINT dashboard_slug UNIQUE CHECK (slug ~ '^[a-z0-9-]{8,60}$'),
  created_at timestamptz NOT NULL
);

-- A slug of an earlier system, which redirects to the account's dashboard.
CREATE TABLE dashboard_alias (
  slug text COLLATE "C" PRIMARY KEY CONSTRAINT dashboard_alias_slug CHECK (length(slug) BETWEEN 1 AND 200),
  account_id uuid NOT NULL REFERENCES account,
  created_at timestamptz NOT NULL
);

-- Pictures that the service has drawn from logos that operators gave. They never change, so their URLs are immutable.
CREATE TABLE logo (
  -- SHA-256 of the file.
  hash text COLLATE "C" PRIMARY KEY CONSTRAINT logo_hash CHECK (hash ~ '^[0-9a-f]{64}$'),
  width smallint NOT NULL CONSTRAINT logo_width CHECK (width BETWEEN 1 AND 480),
  height smallint NOT NULL CONSTRAINT logo_height CHECK (height BETWEEN 1 AND 240),
  png bytea NOT NULL CONSTRAINT logo_png CHECK (length(png) BETWEEN 1 AND 1048576)
);

-- What the public pages of an account say about it. Without a row they have its name and the default color.
CREATE TABLE profile (
  account_id uuid PRIMARY KEY REFERENCES account,
  -- Null shows the account's name.
  display_name text CONSTRAINT profile_display_name CHECK (length(display_name) BETWEEN 1 AND 80),
  color text CONSTRAINT profile_color CHECK (color ~ '^#[0-9a-f]{6}$'),
  home_url text CONSTRAINT profile_home_url CHECK (home_url LIKE 'https://%' AND length(home_url) <= 500),
  -- Plain text; an empty line starts a paragraph.
  story text CONSTRAINT profile_story CHECK (length(story) BETWEEN 1 AND 1200),
  -- Sections of the page that are not shown.
  hidden_sections text[] NOT NULL DEFAULT '{}' CONSTRAINT profile_hidden_sections CHECK (
    hidden_sections <@ ARRAY['bottles', 'donations', 'carbon', 'months', 'sites', 'photos']
  ),
  logo_hash text COLLATE "C" REFERENCES logo
);

CREATE INDEX profile_logo ON profile (logo_hash) WHERE logo_hash IS NOT NULL;

-- A public page that certifies one record, or the records of a store's order. Its token cannot be guessed: whoever has the
-- URL may read the page. It has no id of an order, so forgetting a customer need not touch it.
CREATE TABLE certificate (
  token text COLLATE "C" PRIMARY KEY CONSTRAINT certificate_token CHECK (token ~ '^[0-9a-f]{32}$'),
  account_id uuid NOT NULL REFERENCES account,
  -- The record, or the first of an order. Without a foreign key, because deleting old records of test mode would look for
  -- certificates one by one.
  record_id uuid NOT NULL,
  kind text NOT NULL CONSTRAINT certificate_kind CHECK (kind IN ('tree', 'bottle', 'donation')),
  is_of_order boolean NOT NULL,
  created_at timestamptz NOT NULL,
  -- From then on the page does not exist. The next request for the URL creates another one.
  revoked_at timestamptz
);

CREATE INDEX certificate_record_id ON certificate (record_id);
CREATE UNIQUE INDEX certificate_current ON certificate (record_id, is_of_order) WHERE revoked_at IS NULL;

-- The further records of a certified order.
CREATE TABLE certificate_item (
  token text COLLATE "C" NOT NULL REFERENCES certificate ON DELETE CASCADE,
  record_id uuid NOT NULL,
  kind text NOT NULL CONSTRAINT certificate_item_kind CHECK (kind IN ('tree', 'bottle', 'donation')),
  PRIMARY KEY (token, record_id)
);

CREATE INDEX certificate_item_record_id ON certificate_item (record_id);
