-- What decides identity is compared by bytes, so that no change of the database's locale changes an index: columns of
-- indexes have the collation "C", and texts of clients, which may be longer than an entry of an index, are indexed by this.
CREATE FUNCTION text_digest(given text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN sha256(decode(replace(given, '\', '\\'), 'escape'));

-- A name or an email address in any case and Unicode form, without the spaces around it. A small sigma at the end of a
-- word is another letter, and the end of a part of a name may not be one.
CREATE FUNCTION folded_text(given text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN normalize(translate(lower(btrim(given, E' \t\r\n') COLLATE "und-x-icu"), 'ς', 'σ'), NFC);

-- An id that a client gives, in one Unicode form.
CREATE FUNCTION trimmed_text(given text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN normalize(btrim(given, E' \t\r\n'), NFC);

-- An order's id, with or without the # that shops write before it.
CREATE FUNCTION order_digest(given text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN text_digest(normalize(rtrim(ltrim(given, E'# \t\r\n'), E' \t\r\n'), NFC));

-- An owner of API keys and records. Organizations use the standalone interface, stores the store-platform interface.
CREATE TABLE account (
  id uuid PRIMARY KEY,
  type text NOT NULL CONSTRAINT account_type CHECK (type IN ('organization', 'store')),
  name text NOT NULL CONSTRAINT account_name CHECK (length(name) BETWEEN 1 AND 1000),
  fractional_counting boolean NOT NULL DEFAULT false,
  -- The day of the month, UTC, on which the built-in ledger's billing cycle starts; in a shorter month its last day.
  billing_day smallint NOT NULL DEFAULT 1 CONSTRAINT account_billing_day CHECK (billing_day BETWEEN 1 AND 31),
  stripe_customer_id text COLLATE "C",
  -- Every customer that it has had: usage that was sent to an earlier one is looked for there.
  stripe_customer_ids text[] COLLATE "C" NOT NULL DEFAULT '{}',
  stripe_subscription_id text COLLATE "C",
  -- The charity provider that searches and donations use.
  charity_provider text NOT NULL DEFAULT 'catalogue'
    CONSTRAINT account_charity_provider CHECK (charity_provider IN ('catalogue', 'everyorg', 'change', 'pledge')),
  -- What follows if the Stripe subscription is not active.
  subscription_policy text NOT NULL DEFAULT 'alert'
    CONSTRAINT account_subscription_policy CHECK (subscription_policy IN ('alert', 'suspend', 'keep')),
  created_at timestamptz NOT NULL
);

-- Webhooks name the subscription.
CREATE INDEX account_stripe_subscription ON account (stripe_subscription_id) WHERE stripe_subscription_id IS NOT NULL;

-- A Stripe customer belongs to one account: reconciliation compares the usage of the two, and one sender reports it.
CREATE UNIQUE INDEX account_stripe_customer ON account (stripe_customer_id) WHERE stripe_customer_id IS NOT NULL;

-- Keys are random; only their SHA-256 is stored. Several can be valid at the same time, so that they can be rotated.
CREATE TABLE api_key (
  id uuid PRIMARY KEY,
  account_id uuid NOT NULL REFERENCES account,
  mode text NOT NULL CONSTRAINT api_key_mode CHECK (mode IN ('live', 'test')),
  hash bytea NOT NULL CONSTRAINT api_key_hash UNIQUE CHECK (length(hash) = 32),
  -- The first characters of the key: enough to recognize it, too few to guess it.
  hint text NOT NULL,
  -- What the key is for, in an operator's words.
  name text NOT NULL CONSTRAINT api_key_name CHECK (length(name) BETWEEN 1 AND 100),
  -- `write` includes reading.
  scope text NOT NULL CONSTRAINT api_key_scope CHECK (scope IN ('read', 'write')),
  created_at timestamptz NOT NULL,
  -- From this time on the key is invalid.
  expires_at timestamptz,
  -- The start of the hour in which the key was last used.
  last_used_at timestamptz,
  revoked_at timestamptz
);

CREATE INDEX api_key_account ON api_key (account_id, created_at);

-- Keys that expire soon.
CREATE INDEX api_key_expiry ON api_key (expires_at) WHERE expires_at IS NOT NULL AND revoked_at IS NULL;

-- The limit that an operator has set for an account in a mode; without a row it has none.
CREATE TABLE account_limit (
  account_id uuid NOT NULL REFERENCES account,
  mode text COLLATE "C" NOT NULL CONSTRAINT account_limit_mode CHECK (mode IN ('live', 'test')),
  count_per_day bigint NOT NULL
    CONSTRAINT account_limit_count_per_day CHECK (count_per_day BETWEEN 1 AND 9007199254740991),
  -- For a minute, requests may be written that began before. They do not count their units, so those of the day are summed.
  changed_at timestamptz NOT NULL DEFAULT now(),
  -- Units registered on the day of the last registration, UTC. Refunds do not lower it.
  counted_day date,
  counted_units bigint CONSTRAINT account_limit_counted_units CHECK (counted_units BETWEEN 0 AND 9007199254740991),
  PRIMARY KEY (account_id, mode)
) WITH (fillfactor = 50);

-- The audit log: who changed what, and why. It is only ever added to, so it must not contain personal data of customers.
CREATE TABLE audit_entry (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  created_at timestamptz NOT NULL,
  -- Such as key.issue; modules/accounts/audit.rules.ts lists them.
  action text COLLATE "C" NOT NULL,
  -- The platform acts through signed requests, the service on its own.
  actor text NOT NULL CONSTRAINT audit_entry_actor CHECK (actor IN ('operator', 'platform', 'service')),
  -- The operator's name.
  operator text,
  -- Null for what concerns the whole deployment.
  account_id uuid REFERENCES account,
  -- The id of what was changed, if it is not the account itself.
  subject text,
  reason text,
  details jsonb NOT NULL,
  CONSTRAINT audit_entry_operator CHECK ((actor = 'operator') = (operator IS NOT NULL))
);

CREATE INDEX audit_entry_account ON audit_entry (account_id, id);
CREATE INDEX audit_entry_action ON audit_entry (action, id);

CREATE FUNCTION reject_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% cannot be changed or deleted', TG_ARGV[0] USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER audit_entry_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entry
  FOR EACH STATEMENT EXECUTE FUNCTION reject_change('audit entries');
