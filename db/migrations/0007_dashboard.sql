-- The public page of an account. The slug never changes, even if the account is renamed.
CREATE TABLE dashboard (
  account_id uuid PRIMARY KEY REFERENCES account,
  slug text NOT NULL CONSTRAINT dashboard_slug UNIQUE CHECK (slug ~ '^[a-z0-9-]{8,60}$'),
  created_at timestamptz NOT NULL
);
