-- The public page of an account. The slug never changes, even if the account is renamed.
CREATE TABLE dashboard (
  account_id uuid PRIMARY KEY REFERENCES account,
  slug text NOT NULL CONSTRAINT dashboard_slug UNIQUE CHECK (slug ~ '^[a-z0-9-]{8,60}$'),
  created_at timestamptz NOT NULL
);

-- A slug of an earlier system, which redirects to the account's dashboard.
CREATE TABLE dashboard_alias (
  slug text PRIMARY KEY CONSTRAINT dashboard_alias_slug CHECK (length(slug) BETWEEN 1 AND 200),
  account_id uuid NOT NULL REFERENCES account,
  created_at timestamptz NOT NULL
);
